//! Where endpoints are, as far as traffic patterns need to know.

/// Endpoints arranged in a grid or as leaves of a tree, numbered with the first digit fastest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Digits of an endpoint number: sizes of the grid, or the tree's arity once per level.
    pub sizes: Vec<u32>,
    /// Meaning of distance.
    pub kind: LayoutKind,
    /// The first digit of a grid numbers the endpoints of one router, between which there are no hops.
    pub shared: bool,
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
        Layout { sizes: sizes.to_vec(), kind: LayoutKind::Torus, shared: false }
    }
    /// A mesh.
    pub fn mesh(sizes: &[u32]) -> Layout {
        Layout { sizes: sizes.to_vec(), kind: LayoutKind::Mesh, shared: false }
    }
    /// The leaves of a tree.
    pub fn tree(arity: u32, levels: u32) -> Layout {
        Layout::levels(vec![arity; levels as usize])
    }
    /// The leaves of a tree of these arities, those of its lowest subtrees first.
    pub fn levels(sizes: Vec<u32>) -> Layout {
        Layout { sizes, kind: LayoutKind::Tree, shared: false }
    }
    /// This grid with N endpoints at every place.
    pub fn with_endpoints(mut self, count: u32) -> Layout {
        if count > 1 {
            self.sizes.insert(0, count);
            self.shared = true;
        }
        self
    }
    /// The first digit that is a coordinate; the one before numbers the endpoints of a router.
    pub fn first(&self) -> usize {
        usize::from(self.shared)
    }
    /// Sizes of the grid's dimensions, or the tree's.
    pub fn dims(&self) -> &[u32] {
        &self.sizes[self.first()..]
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
        let apart = a.iter().zip(&b).map(|(&a, &b)| a.abs_diff(b)).skip(self.first());
        match self.kind {
            LayoutKind::Torus => apart.zip(self.dims()).map(|(d, &size)| d.min(size - d)).sum(),
            LayoutKind::Mesh => apart.sum(),
            LayoutKind::Tree => {
                (0..a.len()).rev().find(|&level| a[level] != b[level]).map_or(0, |level| level as u32 + 1)
            }
        }
    }
    /// Largest distance between two endpoints.
    pub fn diameter(&self) -> u32 {
        match self.kind {
            LayoutKind::Torus => self.dims().iter().map(|s| s / 2).sum(),
            LayoutKind::Mesh => self.dims().iter().map(|s| s - 1).sum(),
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
        let four = Layout::torus(&[8, 8]).with_endpoints(4);
        assert_eq!((four.endpoints(), four.distance(0, 3), four.distance(1, 31), four.diameter()), (256, 0, 1, 8));
    }
}
