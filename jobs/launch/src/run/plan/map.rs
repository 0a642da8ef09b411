//! `--map`: which PE is on which node.

use angara_control::error::Failed;
use angara_net::torus::{NodeId, Shape};
use std::path::Path;

/// Reads a placement: one node per PE and line, as coordinates or as a number; `#` starts a comment.
pub(super) fn read_map(file: &Path, pes: u32, ppn: u32, shape: Shape) -> Result<Vec<NodeId>, Failed> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| {
        Failed::usage(format!("cannot read the map {shown}: {e}"), "give --map file:F with a readable text file")
    })?;
    parse_map(&text, pes, ppn, shape).map_err(|e| {
        Failed::usage(format!("map {shown}: {e}"), "write one node per PE and line, such as `1,0,1` or `5`")
    })
}

fn parse_map(text: &str, pes: u32, ppn: u32, shape: Shape) -> Result<Vec<NodeId>, String> {
    let mut nodes = Vec::new();
    let mut used = vec![0u32; shape.nodes()];
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let node = match line.parse::<u32>() {
            Ok(id) => id,
            Err(_) => {
                let at = shape.parse_coords(line).map_err(|e| format!("line {}: {e}", i + 1))?;
                shape.id(at).expect("parse_coords checked it")
            }
        };
        let slot = used
            .get_mut(node as usize)
            .ok_or_else(|| format!("line {}: node {node} is not in {shape} (0 to {})", i + 1, shape.nodes() - 1))?;
        *slot += 1;
        if *slot > ppn {
            return Err(format!("line {}: node {node} gets {slot} PEs, but --ppn is {ppn}", i + 1));
        }
        nodes.push(node);
    }
    if nodes.len() < pes as usize {
        return Err(format!("{} nodes for {pes} PEs", nodes.len()));
    }
    nodes.truncate(pes as usize);
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_checked_line_by_line() {
        let shape: Shape = "2x2".parse().unwrap();
        assert_eq!(parse_map("# two PEs\n1,1\n0\n", 2, 1, shape), Ok(vec![3, 0]));
        assert_eq!(parse_map("0\n0\n", 2, 2, shape), Ok(vec![0, 0]));
        assert!(parse_map("0\n0\n", 2, 1, shape).unwrap_err().contains("--ppn is 1"));
        assert!(parse_map("4\n", 1, 1, shape).unwrap_err().contains("node 4"));
        assert!(parse_map("0,2\n", 1, 1, shape).unwrap_err().contains("line 1"));
        assert!(parse_map("0\n", 2, 1, shape).unwrap_err().contains("1 nodes for 2 PEs"));
    }
}
