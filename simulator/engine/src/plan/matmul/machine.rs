//! Hierarchical machines: Merrimac as the paper's table 1 has it, and a torus of Angara nodes.

use crate::Error;
use angara_net::torus::Shape;
use serde::Serialize;

/// Bytes of a word.
pub const WORD: f64 = 8.0;

/// One level of a machine: what a component of it is and how it is connected to the outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// FPU, cluster, node, …
    pub name: String,
    /// Components of the level below in one component.
    pub parts: u64,
    /// Smallest elements (arithmetic units, cores) in one component.
    pub elements: u64,
    /// K: components of this level in the whole machine.
    pub count: u64,
    /// Peak of one component, GF/s.
    pub gflops: f64,
    /// Bandwidth between one component and everything outside it, GB/s.
    pub gbytes: f64,
}

impl Level {
    /// Outside bandwidth in Gwords/s.
    pub fn gwords(&self) -> f64 {
        self.gbytes / WORD
    }
}

/// A machine, smallest components first; the whole machine is not a level of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Name for headings.
    pub name: String,
    /// Its levels.
    pub levels: Vec<Level>,
    /// Index of the level called node, to which table 1 scales its last column.
    pub node: usize,
}

impl Machine {
    /// Merrimac at half size: 512K arithmetic units of 2 GF, 16 racks, 1 PF (table 1).
    pub fn merrimac() -> Machine {
        let rows: [(&str, u64, f64); 5] =
            [("FPU", 1, 8.0), ("cluster", 4, 4.0), ("node", 16, 20.0), ("board", 16, 80.0), ("rack", 32, 1280.0)];
        let racks = 16;
        let total: u64 = racks * rows.iter().map(|r| r.1).product::<u64>();
        let mut elements = 1;
        let level = |(name, parts, gbytes): (&str, u64, f64)| {
            elements *= parts;
            Level { name: name.into(), parts, elements, count: total / elements, gflops: 2.0 * elements as f64, gbytes }
        };
        Machine { name: "Merrimac".into(), levels: rows.map(level).to_vec(), node: 2 }
    }

    /// A torus or mesh of nodes: core, node, then line, plane and so on, one more dimension each.
    ///
    /// A component's outside bandwidth is what its links to other components carry, but never
    /// more than its nodes can inject. This is the cut around it: packets that only pass through
    /// use it too, so the times are lower bounds, as everywhere in this model.
    ///
    /// # Errors
    /// A size or bandwidth that is not positive.
    pub fn torus(shape: &Shape, node: TorusNode) -> Result<Machine, Error> {
        node.check()?;
        let nodes = shape.nodes() as u64;
        let core = Level {
            name: "core".into(),
            parts: 1,
            elements: 1,
            count: nodes * node.cores,
            gflops: node.gflops,
            gbytes: node.memory / node.cores as f64,
        };
        let mut levels = vec![core];
        let mut inside = vec![false; shape.dims().len()];
        let mut size = 1u64;
        let names = ["node", "line", "plane", "box", "4-box"];
        let level = |name: &str, parts: u64, size: u64, inside: &[bool]| {
            let cut: u64 = shape
                .dims()
                .iter()
                .zip(inside)
                .filter(|(extent, inside)| **extent > 1 && !**inside)
                .map(|_| if shape.is_torus() { 2 * size } else { size })
                .sum();
            Level {
                name: name.into(),
                parts,
                elements: size * node.cores,
                count: nodes / size,
                gflops: node.gflops * (size * node.cores) as f64,
                gbytes: (cut as f64 * node.link).min(size as f64 * node.injection),
            }
        };
        levels.push(level(names[0], node.cores, 1, &inside));
        let used: Vec<usize> = (0..shape.dims().len()).filter(|&d| shape.size(d) > 1).collect();
        for (step, &dim) in used.iter().enumerate() {
            size *= shape.size(dim) as u64;
            inside[dim] = true;
            if size < nodes {
                levels.push(level(names[step + 1], shape.size(dim) as u64, size, &inside));
            }
        }
        // A lone node has no outside.
        levels.retain(|l| l.count > 1);
        if levels.is_empty() {
            return Err(Error::invalid("--torus", shape, "one node with one core has nothing to communicate with"));
        }
        let node = levels.iter().position(|l| l.name == "node").unwrap_or(0);
        Ok(Machine { name: format!("torus {shape}"), levels, node })
    }

    /// Smallest elements in the whole machine.
    pub fn elements_total(&self) -> u64 {
        self.levels[0].count
    }

    /// Peak in GF/s.
    pub fn gflops(&self) -> f64 {
        self.levels[0].gflops * self.elements_total() as f64
    }

    /// Outside bandwidth of a level, per node: the last column of table 1, GB/s.
    pub fn per_node(&self, level: usize) -> f64 {
        let node = self.levels[self.node].elements as f64;
        self.levels[level].gbytes * node / self.levels[level].elements as f64
    }
}

/// Capabilities of one node of a torus.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TorusNode {
    /// Cores.
    pub cores: u64,
    /// Peak of one core, GF/s.
    pub gflops: f64,
    /// Memory bandwidth shared by the cores, GB/s.
    pub memory: f64,
    /// Host interface to the network, GB/s.
    pub injection: f64,
    /// One direction of one link, GB/s.
    pub link: f64,
}

impl Default for TorusNode {
    /// A node of paper 000: Xeon E5-2660 (8 cores, 140.8 GF, four DDR3-1600 channels), PCI Express
    /// 2.0 x16, Angara links of 7.5 GB/s.
    fn default() -> TorusNode {
        TorusNode { cores: 8, gflops: 17.6, memory: 51.2, injection: 8.0, link: 7.5 }
    }
}

impl TorusNode {
    fn check(&self) -> Result<(), Error> {
        if self.cores == 0 || self.cores > 1 << 16 {
            return Err(Error::invalid("--cores", self.cores, "give 1 to 65536 cores per node"));
        }
        let positive = [
            ("--core-gflops", self.gflops),
            ("--memory-gbs", self.memory),
            ("--injection-gbs", self.injection),
            ("--link-gbs", self.link),
        ];
        match positive.iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
            Some((name, v)) => Err(Error::invalid(name, v, "give a positive number")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merrimac_is_table_1() {
        let m = Machine::merrimac();
        let rows: Vec<_> =
            m.levels.iter().map(|l| (l.name.as_str(), l.elements, l.count, l.gflops, l.gbytes)).collect();
        let k = 1024;
        assert_eq!(
            rows,
            [
                ("FPU", 1, 512 * k, 2.0, 8.0),
                ("cluster", 4, 128 * k, 8.0, 4.0),
                ("node", 64, 8 * k, 128.0, 20.0),
                ("board", 1024, 512, 2048.0, 80.0),
                ("rack", 32 * k, 16, 65536.0, 1280.0),
            ]
        );
        let last_column: Vec<f64> = (0..5).map(|l| m.per_node(l)).collect();
        assert_eq!(last_column, [512.0, 64.0, 20.0, 5.0, 2.5]);
        assert_eq!(m.gflops(), 1024.0 * 1024.0);
    }

    #[test]
    fn a_torus_has_a_level_per_dimension() {
        let m = Machine::torus(&"4x4x2".parse().unwrap(), TorusNode::default()).unwrap();
        let rows: Vec<_> = m.levels.iter().map(|l| (l.name.as_str(), l.count, l.gbytes)).collect();
        // A line of 4 nodes has 16 links out but injects 32 GB/s; a plane of 16 has 32 links out.
        assert_eq!(rows, [("core", 256, 6.4), ("node", 32, 8.0), ("line", 8, 32.0), ("plane", 2, 128.0)]);
    }

    #[test]
    fn slow_links_limit_a_plane() {
        let slow = TorusNode { link: 1.0, ..TorusNode::default() };
        let m = Machine::torus(&"4x4x4".parse().unwrap(), slow).unwrap();
        assert_eq!(m.levels[1].gbytes, 6.0);
        assert_eq!(m.levels[3].gbytes, 32.0, "16 nodes, two faces");
        let mesh = Machine::torus(&"mesh:4x4x4".parse().unwrap(), slow).unwrap();
        assert_eq!(mesh.levels[3].gbytes, 16.0, "the outermost plane has one face");
    }

    #[test]
    fn dimensions_of_size_one_are_no_levels() {
        let m = Machine::torus(&"4x1x4".parse().unwrap(), TorusNode::default()).unwrap();
        assert_eq!(m.levels.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["core", "node", "line"]);
    }

    #[test]
    fn impossible_nodes_are_refused() {
        let shape = "4".parse().unwrap();
        let e = Machine::torus(&shape, TorusNode { cores: 0, ..TorusNode::default() }).unwrap_err();
        assert!(e.to_string().starts_with("--cores is 0"), "{e}");
        assert!(Machine::torus(&"1".parse().unwrap(), TorusNode { cores: 1, ..TorusNode::default() }).is_err());
    }
}
