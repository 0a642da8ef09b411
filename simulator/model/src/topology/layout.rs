//! Where endpoints are, as far as traffic patterns need to know.

/// Endpoints arranged in a grid or as leaves of a tree, numbered with the first digit fastest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Digits of an endpoint number: sizes of the grid, or the tree's arity once per level.
    pub sizes: Vec<u32>,
    /// Meaning of distance.
    pub kind: LayoutKind,
}

/// Meaning of distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutKind {
    /// Hops on a torus.
    Torus,
    /// Hops on a mesh.
    Mesh,
    /// Height of the smallest common subtree.
    Tree,
}

impl Layout {
    /// A torus.
    pub fn torus(sizes: &[u32]) -> Layout {
        Layout { sizes: sizes.to_vec(), kind: LayoutKind::Torus }
    }
    /// A mesh.
    pub fn mesh(sizes: &[u32]) -> Layout {
        Layout { sizes: sizes.to_vec(), kind: LayoutKind::Mesh }
    }
    /// The leaves of a tree.
    pub fn tree(arity: u32, levels: u32) -> Layout {
        Layout { sizes: vec![arity; levels as usize], kind: LayoutKind::Tree }
    }
    /// Endpoints.
    pub fn endpoints(&self) -> u32 {
        self.sizes.iter().product()
    }
    /// Digits of endpoint `id`.
    pub fn digits(&self, id: u32) -> Vec<u32> {
        let mut rest = id;
        self.sizes
            .iter()
            .map(|&size| {
                let digit = rest % size;
                rest /= size;
                digit
            })
            .collect()
    }
    /// The endpoint with these digits, each below its size.
    pub fn id(&self, digits: &[u32]) -> u32 {
        self.sizes.iter().zip(digits).rev().fold(0, |id, (&size, &digit)| id * size + digit)
    }
    /// Distance between two endpoints: hops, or the height of the smallest common subtree.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.digits(a), self.digits(b));
        let apart = a.iter().zip(&b).map(|(&a, &b)| a.abs_diff(b));
        match self.kind {
            LayoutKind::Torus => apart.zip(&self.sizes).map(|(d, &size)| d.min(size - d)).sum(),
            LayoutKind::Mesh => apart.sum(),
            LayoutKind::Tree => {
                (0..a.len()).rev().find(|&level| a[level] != b[level]).map_or(0, |level| level as u32 + 1)
            }
        }
    }
    /// Largest distance between two endpoints.
    pub fn diameter(&self) -> u32 {
        match self.kind {
            LayoutKind::Torus => self.sizes.iter().map(|s| s / 2).sum(),
            LayoutKind::Mesh => self.sizes.iter().map(|s| s - 1).sum(),
            LayoutKind::Tree => self.sizes.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_numbers_are_inverse() {
        let layout = Layout::torus(&[4, 3, 2]);
        assert_eq!(layout.digits(1 + 4 * (2 + 3)), [1, 2, 1]);
        for id in 0..layout.endpoints() {
            assert_eq!(layout.id(&layout.digits(id)), id);
        }
    }

    #[test]
    fn distances() {
        let (torus, mesh, tree) = (Layout::torus(&[8, 8]), Layout::mesh(&[8, 8]), Layout::tree(8, 2));
        assert_eq!((torus.distance(0, 7), mesh.distance(0, 7), tree.distance(0, 7)), (1, 7, 1));
        assert_eq!((torus.distance(0, 63), mesh.distance(0, 63), tree.distance(0, 63)), (2, 14, 2));
        assert_eq!((torus.diameter(), mesh.diameter(), tree.diameter()), (8, 14, 2));
        assert_eq!(tree.distance(9, 9), 0);
    }
}
