//! Express mesh: a mesh with links that skip routers (W. J. Dally, Express Cubes, IEEE Trans. Computers 40, 1991).

use super::contract::{
    Class, DELAY_MAX, DIMS_MAX, End, Hop, Route, RouteState, Routing, Topology, Written, check_nodes,
};
use super::layout::Layout;
use std::fmt;

/// Names of the dimensions.
const AXES: [char; DIMS_MAX] = ['X', 'Y', 'Z', 'W', 'V', 'U'];

/// Nodes are numbered with the first coordinate fastest. Of dimension d, port 4d leads to the next larger coordinate,
/// 4d+1 to the next smaller one; at multiples of the span, 4d+2 and 4d+3 lead to the next multiples. The last port
/// leads to the endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Express {
    /// Nodes of each dimension; 1 beyond the last.
    sizes: [u32; DIMS_MAX],
    dims: usize,
    /// Nodes from one end of an express link to the other, and its cycles.
    span: u8,
}

impl Express {
    /// A mesh of these sizes with links over `span` nodes.
    ///
    /// # Errors
    /// Which numbers are possible.
    pub fn new(sizes: &[u16], span: u8) -> Result<Express, String> {
        if !(1..=DIMS_MAX).contains(&sizes.len()) || sizes.iter().any(|k| !(1..=4096).contains(k)) {
            return Err(format!("give 1 to {DIMS_MAX} sizes, each from 1 to 4096"));
        }
        if !(2..=DELAY_MAX).contains(&span) {
            return Err(format!("an express link over {span} nodes; give 2 to {DELAY_MAX}"));
        }
        check_nodes(sizes.iter().fold(1, |n: u64, &k| n.saturating_mul(k.into())))?;
        let mut all = [1; DIMS_MAX];
        all.iter_mut().zip(sizes).for_each(|(to, &k)| *to = k.into());
        Ok(Express { sizes: all, dims: sizes.len(), span })
    }
    fn sizes(&self) -> &[u32] {
        &self.sizes[..self.dims]
    }
}

impl Written for Express {
    const FORMS: &'static [(&'static str, &'static str)] = &[("express", "SIZES,SPAN (express:8x8,4)")];
    fn read(_kind: &str, rest: &str) -> Result<Express, String> {
        let (sizes, span) = rest.split_once(',').ok_or_else(String::new)?;
        let sizes: Option<Vec<u16>> = sizes.split('x').map(|k| k.parse().ok()).collect();
        Express::new(&sizes.ok_or_else(String::new)?, span.parse().map_err(|_| String::new())?)
    }
}

impl fmt::Display for Express {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes().iter().map(u32::to_string).collect();
        write!(f, "express:{},{}", sizes.join("x"), self.span)
    }
}

impl Topology for Express {
    fn endpoints(&self) -> usize {
        self.sizes.iter().product::<u32>() as usize
    }
    fn routers(&self) -> usize {
        self.endpoints()
    }
    fn ports(&self) -> usize {
        4 * self.dims + 1
    }
    fn output(&self, router: u32, port: u8) -> End {
        let d = usize::from(port / 4);
        if d >= self.dims {
            return if usize::from(port) == 4 * self.dims { End::Endpoint(router) } else { End::Open };
        }
        let (size, stride) = (self.sizes[d], self.sizes[..d].iter().product::<u32>());
        let (at, is_express) = (router / stride % size, port & 2 != 0);
        let step = if is_express { u32::from(self.span) } else { 1 };
        let to = match port & 1 {
            _ if is_express && !at.is_multiple_of(step) => None,
            0 => Some(at + step).filter(|to| *to < size),
            _ => at.checked_sub(step),
        };
        to.map_or(End::Open, |to| End::Router { router: router - at * stride + to * stride, port: port ^ 1 })
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint, 4 * self.dims as u8)
    }
    fn start(&self, _src: u32, dst: u32, _random: u64) -> RouteState {
        RouteState { lo: dst.into(), hi: 0 }
    }
    /// Dimension by dimension, and never away from the destination: so no packets wait for each other in a circle.
    #[inline(always)]
    fn next(&self, router: u32, route: &mut RouteState) -> Hop {
        let (mut from, mut to) = (router, route.lo as u32);
        for (d, &size) in self.sizes().iter().enumerate() {
            let (at, target) = (from % size, to % size);
            if at != target {
                let (span, minus) = (u32::from(self.span), u8::from(target < at));
                let express = at.is_multiple_of(span) && at.abs_diff(target) >= span;
                return Hop { port: 4 * d as u8 + 2 * u8::from(express) + minus, class: Class::Any };
            }
            (from, to) = (from / size, to / size);
        }
        Hop { port: 4 * self.dims as u8, class: Class::Any }
    }
    fn delay(&self, _router: u32, port: u8) -> u8 {
        if port & 2 != 0 { self.span } else { 1 }
    }
    fn links_name(&self, port: u8) -> &'static str {
        if port & 2 != 0 { "express links" } else { "links" }
    }
    fn routing(&self) -> Routing {
        Routing::Dor
    }
    fn layout(&self) -> Layout {
        Layout::mesh(self.sizes())
    }
    fn router_name(&self, router: u32) -> String {
        let digits: Vec<String> = self.layout().digits(router).iter().map(u32::to_string).collect();
        format!("({})", digits.join(","))
    }
    fn port_name(&self, port: u8) -> String {
        let sign = if port & 1 == 0 { '+' } else { '-' };
        match AXES[..self.dims].get(usize::from(port / 4)) {
            Some(axis) if port & 2 != 0 => format!("express {sign}{axis}"),
            Some(axis) => format!("{sign}{axis}"),
            None => "node".into(),
        }
    }
}

impl Route for Express {}
