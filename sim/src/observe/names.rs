//! Names of routers and ports for people.

use angara_model::TopologySpec;
use angara_model::topology::DIMS_MAX;

/// Names of the dimensions.
const AXES: [char; DIMS_MAX] = ['X', 'Y', 'Z', 'W', 'V', 'U'];

/// `(1,0,2)` on a grid, `rank 1 router 3` in a tree, else `router 7`.
pub fn router(shape: &TopologySpec, router: u32) -> String {
    match shape {
        TopologySpec::Grid { dims, .. } => format!("({})", coordinates(dims, router)),
        TopologySpec::FatTree { arity, levels } => {
            let per_rank = u32::from(*arity).pow(u32::from(*levels) - 1);
            format!("rank {} router {}", router / per_rank, router % per_rank)
        }
        TopologySpec::Clos { leaves, .. } => match router.checked_sub(u32::from(*leaves)) {
            None => format!("leaf {router}"),
            Some(spine) => format!("spine {spine}"),
        },
        TopologySpec::Cayley(_) => format!("router {router}"),
    }
}

/// `+X` on a grid, `up 1` or `down 0` in a tree, `node` to an endpoint of a grid.
pub fn port(shape: &TopologySpec, port: u8) -> String {
    match shape {
        TopologySpec::Grid { dims, .. } if usize::from(port) < 2 * dims.len() => {
            format!("{}{}", if port.is_multiple_of(2) { '+' } else { '-' }, AXES[usize::from(port) / 2])
        }
        TopologySpec::Grid { .. } => "node".into(),
        TopologySpec::FatTree { arity, .. } if u16::from(port) < *arity => format!("down {port}"),
        TopologySpec::FatTree { arity, .. } => format!("up {}", u16::from(port) - arity),
        TopologySpec::Clos { .. } | TopologySpec::Cayley(_) => format!("port {port}"),
    }
}

/// Coordinates of node `id`, X first.
pub fn coordinates(dims: &[u16], id: u32) -> String {
    let mut rest = id;
    let digits: Vec<String> = dims
        .iter()
        .map(|&d| {
            let digit = rest % u32::from(d);
            rest /= u32::from(d);
            digit.to_string()
        })
        .collect();
    digits.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_names() {
        let torus: TopologySpec = "torus:4x3x2".parse().unwrap();
        assert_eq!(
            (router(&torus, 23), port(&torus, 3), port(&torus, 6)),
            ("(3,2,1)".into(), "-Y".into(), "node".into())
        );
        let tree: TopologySpec = "fat-tree:2,3".parse().unwrap();
        assert_eq!(
            (router(&tree, 6), port(&tree, 1), port(&tree, 2)),
            ("rank 1 router 2".into(), "down 1".into(), "up 0".into())
        );
    }
}
