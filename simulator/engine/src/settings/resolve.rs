//! Settings turned into a network, traffic and a workload, with everything checked.

use super::Simulation;
use super::keys::Keys;
use crate::Error;
use crate::observe::Observe;
use crate::run::Together;
use crate::run::experiment::{Experiment, Lone, Schedule, Settings};
use crate::run::router::{Deadlock, Router, Routing, Switching};
use crate::traffic::{Destinations, Lengths, Pattern, Process, Rate};
use crate::workload::{Brought, Chosen, TRAFFIC_KEYS};
use angara_fabric::{Params, Tick};
use angara_machine::Machine;
use angara_model::setup::ANGARA_FLITS_MAX;
use angara_model::topology::{Layout, TopologyError};
use angara_model::{self as model, Angara, AnyTopology, Generic, Profile, Setup, SetupError};
use angara_net::fault::Fault;
use angara_net::torus::Shape;

/// Dimensions of the chip's torus; the angara router has ports for no more.
const ANGARA_DIMS: usize = 4;

/// A shape of the chip as simulations name it.
fn named(shape: &Shape) -> AnyTopology {
    let text = shape.to_string();
    let text = if shape.is_torus() { format!("torus:{text}") } else { text };
    text.parse().expect("a torus or mesh of the chip is one of simulations, too")
}

/// What is wired how, without times.
struct Wired {
    shape: AnyTopology,
    router: Router,
    faults: Vec<String>,
    deadlock: Deadlock,
    routing: Routing,
}

/// An error and the setting it is about.
type Blamed<T> = Result<T, (Error, &'static str)>;

/// When packets leave a router, and whether they keep the switch meanwhile: as settings, where there is a choice.
fn switching_of(profile: &Profile) -> (Option<Switching>, Option<bool>) {
    match profile {
        Profile::Angara(_) => (None, None),
        Profile::Generic(g) => match g.switching {
            model::Switching::CutThrough => (Some(Switching::CutThrough), None),
            model::Switching::Wormhole { hold } => (Some(Switching::Wormhole), Some(hold)),
        },
    }
}

fn blame<T>(result: Result<T, Error>, key: &'static str) -> Blamed<T> {
    result.map_err(|e| (e, key))
}

impl Keys {
    /// Fills in defaults and checks everything.
    ///
    /// # Errors
    /// Returns the settings that do not fit together, with the one to change.
    pub fn resolve(&self) -> Blamed<Simulation> {
        match self.workload.as_ref().and_then(|chosen| chosen.workload.defaults()) {
            Some(own) => self.clone().beside(own)?.resolve_all(),
            None => self.resolve_all(),
        }
    }

    /// These settings on the machine of a workload, as far as they do not name another one.
    fn beside(self, own: Brought) -> Blamed<Keys> {
        let has_shape = self.machine.is_some() && self.machine()?.is_some_and(|machine| machine.shape.is_some());
        let set = match &self.machine {
            Some(_) => self.set.clone(),
            None => Some(own.set.iter().chain(&self.set).flatten().cloned().collect())
                .filter(|set: &Vec<_>| !set.is_empty()),
        };
        let topology = self.topology.clone().or(own.topology.filter(|_| !has_shape));
        Ok(Keys { topology, set, seed: self.seed.or(Some(own.seed)), ..self })
    }

    fn resolve_all(&self) -> Blamed<Simulation> {
        let machine = self.machine()?;
        let seed = self.seed.unwrap_or(1);
        let Wired { shape, router, faults, deadlock, routing } = self.wired(machine.as_ref(), seed)?;
        let adaptive = routing == Routing::Adaptive;
        let workload = self.workload.clone().unwrap_or_default();
        self.refuse_unused(&workload)?;
        let lengths = self.lengths(router, &workload, machine.is_some())?;
        let caps = machine.as_ref().map_or_else(Vec::new, |machine| caps(machine, router));
        let (profile, buffer, vcs) = self.profile(router, &lengths, machine)?;
        let (switching, hold_switch) = switching_of(&profile);
        let lone_packet = Lone::of(&profile);
        // Of generic routers, what is down from the beginning is the shape's.
        let beside = faults.iter().filter(|fault| router == Router::Angara || !is_from_the_beginning(fault));
        let network =
            Setup { shape: shape.clone(), profile, seed, faults: beside.cloned().collect(), sets: Vec::new() };
        network.validate().map_err(|e| match e {
            SetupError::Topology(e) => fault_refused(e),
            e => (Error::Network(e.to_string()), network_key(&e.to_string())),
        })?;

        let layout = shape.layout();
        let load = self.load.unwrap_or(0.1);
        let rate = rate(load, lengths.mean())?;
        let pattern = self.pattern.clone().unwrap_or(Pattern::Uniform);
        let map = self.map.unwrap_or_default();
        let process = self.process.unwrap_or(Process::Bernoulli);
        check_process(process, rate, load, lengths.mean())?;
        self.check_nodes(&layout)?;
        let destinations = blame(pattern.prepare(&layout, seed), "pattern")?;
        let observe = Observe { packets: self.trace.clone(), ..Observe::default() };
        let threads = self.thread_count(&network)?;
        let experiment = Experiment {
            caps,
            settings: Settings {
                topology: shape.to_string(),
                router,
                vcs,
                switching,
                hold_switch,
                buffer,
                lone_packet,
                deadlock,
                routing,
                ugal_threshold: shape.comparison(vcs.into()).map(|queues| queues.threshold),
                workload: workload.to_string(),
                length: lengths.to_string(),
                load,
                pattern,
                rates: self.rates.clone(),
                process,
                map,
                fault: faults,
                seed,
            },
            adaptive,
            rates: self.rank_rates(&destinations, &layout, (rate, process, load))?,
            destinations,
            lengths,
            process,
            rate,
            placement: blame(map.endpoints(&layout, seed), "map")?,
            probe: self.probe,
            threads,
            together: Together::default(),
            observe,
            schedule: self.schedule()?,
            find_saturation: self.find_saturation()?,
            seed,
            network,
            layout,
        };
        self.ask_workload(&workload, &experiment)?;
        Ok(Simulation { experiment, workload })
    }

    /// The routers, how they are wired, and how packets find their way.
    fn wired(&self, machine: Option<&Machine>, seed: u64) -> Blamed<Wired> {
        let shape = self.topology.clone().or_else(|| machine?.shape.map(|shape| named(&shape)));
        let shape = shape.unwrap_or_else(|| "torus:8x8x8".parse().expect("a torus"));
        let router = match (self.router, &shape) {
            (Some(router), _) => router,
            (None, AnyTopology::Grid(grid))
                if grid.ndims() <= ANGARA_DIMS
                    && grid.is_plain()
                    && matches!(self.routing, None | Some(Routing::Dor | Routing::Adaptive)) =>
            {
                Router::Angara
            }
            _ => Router::Generic,
        };
        let faults = self.faults(&shape, router)?;
        let shape = if router == Router::Generic { with_faults(shape, &faults, seed)? } else { shape };
        let (deadlock, routing) = (self.deadlock_rule(router)?, self.routing_rule(router, &shape, machine)?);
        let shape = match routing {
            Routing::Table(_) => with_routing(shape, router, &routing)?,
            _ => with_routing(shape, router, &routing)
                .map_err(|(e, key)| (self.round_faults(e, router, &routing), key))?,
        };
        let shape = self.with_threshold(shape, &routing)?;
        Ok(Wired { shape, router, faults, deadlock, routing })
    }

    /// A workload may object to itself or to the setting it names.
    fn ask_workload(&self, chosen: &Chosen, experiment: &Experiment) -> Blamed<()> {
        chosen.workload.check(experiment).map_err(|e| {
            let named = ["router", "topology", "fault", "routing", "trace", "threads"];
            let key = named.into_iter().find(|key| matches!(&e, Error::Invalid { what, .. } if what == key));
            (e, key.filter(|key| self.gives(key)).unwrap_or("workload"))
        })
    }

    /// The router as the network has it, flits of a buffer, and virtual channels.
    fn profile(&self, router: Router, lengths: &Lengths, machine: Option<Machine>) -> Blamed<(Profile, u16, u8)> {
        match (router, machine) {
            (Router::Angara, machine) => self.angara(lengths, machine),
            (Router::Generic, machine) => self.generic(lengths, machine),
        }
    }

    /// The machine asked for, as changed.
    fn machine(&self) -> Blamed<Option<Machine>> {
        if self.machine.is_none() && self.set.is_none() {
            return Ok(None);
        }
        let named = self.machine.as_deref().map_or_else(|| Ok(Machine::plain()), Machine::named);
        let mut machine = named.map_err(|e| {
            (Error::invalid("machine", self.machine.clone().unwrap_or_default(), e.to_string()), "machine")
        })?;
        for change in self.set.iter().flatten() {
            machine.change(change).map_err(|e| (Error::invalid("set", change, e.to_string()), "set"))?;
        }
        Ok(Some(machine))
    }

    /// Settings the workload does not read are mistakes.
    fn refuse_unused(&self, chosen: &Chosen) -> Blamed<()> {
        let used = chosen.workload.keys();
        match TRAFFIC_KEYS.into_iter().find(|key| self.gives(key) && !used.contains(key)) {
            Some(key) => {
                let what = format!("workload {chosen} does not read it; leave it out");
                Err((Error::invalid(key, "given", what), key))
            }
            None => Ok(()),
        }
    }

    /// The lengths asked for, else what the workload sends, else those usual with the router.
    fn lengths(&self, router: Router, chosen: &Chosen, machine: bool) -> Blamed<Lengths> {
        if router == Router::Angara {
            blame(chosen.workload.check_length(ANGARA_FLITS_MAX), "workload")?;
        }
        let usual = if router == Router::Angara || machine { ANGARA_FLITS_MAX } else { 1 };
        let own = || chosen.workload.packet_flits_max().unwrap_or(usual);
        Ok(self.length.clone().unwrap_or_else(|| own().to_string().parse().expect("a plain number is a length")))
    }

    /// Rates of the ranks, where a file says them; on average they are those of the load.
    fn rank_rates(
        &self,
        destinations: &Destinations,
        layout: &Layout,
        (mean, process, load): (Rate, Process, f64),
    ) -> Blamed<Option<Vec<Rate>>> {
        match (&self.rates, destinations.weights()) {
            (None, None) => Ok(None),
            (None, Some(weights)) => blame(weights.rates(mean, process, load), "pattern").map(Some),
            (Some(file), None) => {
                let weights = blame(file.weights(layout.endpoints()), "rates")?;
                blame(weights.rates(mean, process, load), "rates").map(Some)
            }
            (Some(_), Some(_)) => {
                let why = "the rows of pattern matrix are the rates already; leave it out";
                Err((Error::invalid("rates", "given", why), "rates"))
            }
        }
    }

    /// Probe and followed pairs are among the nodes that exist.
    fn check_nodes(&self, layout: &Layout) -> Blamed<()> {
        let last = layout.endpoints() - 1;
        let why = format!("nodes are numbered 0 to {last}");
        match (self.probe, &self.trace) {
            (Some(p), _) if p.from.max(p.to) > last => {
                Err((Error::invalid("probe", format!("{},{}", p.from, p.to), why), "probe"))
            }
            (_, Some(trace)) if trace.largest_endpoint().is_some_and(|e| e > last) => {
                Err((Error::invalid("trace", trace, why), "trace"))
            }
            _ => Ok(()),
        }
    }

    fn thread_count(&self, network: &Setup) -> Blamed<usize> {
        let threads = self.threads.unwrap_or(1);
        if threads == 0 {
            return Err((Error::invalid("threads", 0, "give at least 1"), "threads"));
        }
        network.check_threads(threads).map_err(|e| (Error::Network(e.to_string()), "threads"))?;
        Ok(threads)
    }

    fn deadlock_rule(&self, router: Router) -> Blamed<Deadlock> {
        let own = if router == Router::Angara { Deadlock::Bubble } else { Deadlock::Dateline };
        match self.deadlock {
            Some(given) if given != own => {
                let why = "bubble goes with router angara (packet slots), dateline with router generic (flits)";
                Err((Error::invalid("deadlock", format!("{given:?}").to_lowercase(), why), "deadlock"))
            }
            _ => Ok(own),
        }
    }

    fn routing_rule(&self, router: Router, shape: &AnyTopology, machine: Option<&Machine>) -> Blamed<Routing> {
        let of_machine = machine.and_then(|m| m.params().ok()).filter(|p| p.adaptive).map(|_| Routing::Adaptive);
        let own = own_routing(shape);
        match self.routing.clone().or(of_machine) {
            Some(Routing::Adaptive) if router == Router::Angara && own == Routing::Dor => Ok(Routing::Adaptive),
            given => Ok(given.unwrap_or(own)),
        }
    }

    /// The shape with the threshold asked for.
    fn with_threshold(&self, shape: AnyTopology, routing: &Routing) -> Blamed<AnyTopology> {
        const KEY: &str = "ugal-threshold";
        let Some(flits) = self.ugal_threshold else { return Ok(shape) };
        shape.with_threshold(flits).ok_or_else(|| {
            let why = format!(
                "routing {routing} of {shape} compares no queues; leave it out, or use ugal, ugal-g or par of a dragonfly, \
                 or ugal of a HyperX"
            );
            (Error::invalid(KEY, flits, why), KEY)
        })
    }

    fn generic(&self, lengths: &Lengths, machine: Option<Machine>) -> Blamed<(Profile, u16, u8)> {
        let timing = [
            ("injection-ns", self.injection_ns),
            ("ejection-ns", self.ejection_ns),
            ("router-ns", self.router_ns),
            ("link-ns", self.link_ns),
            ("credit-ns", self.credit_ns),
            ("escape-ns", self.escape_ns),
        ];
        if let Some((name, value)) = timing.into_iter().find_map(|(name, v)| v.map(|v| (name, v))) {
            let why = "router generic counts in cycles; use cycle-ns, a machine (--set hop=129ns), or router angara";
            return Err((Error::invalid(name, value, why), name));
        }
        let (default, switching) = (Generic::default(), self.switching_rule()?);
        // With wormhole switching a packet need not fit into a buffer.
        let least = if switching == model::Switching::CutThrough { lengths.max() } else { 1 };
        let base = match machine {
            Some(machine) => self.like_a_machine(&machine, lengths)?,
            None => Generic {
                buffer_flits: default.buffer_flits.max(least),
                cycle: self.cycle_ns.map_or(Ok(default.cycle), |ns| picoseconds(ns, "cycle-ns"))?,
                ..default
            },
        };
        let generic = Generic {
            switching,
            vcs: self.vcs.unwrap_or(base.vcs),
            buffer_flits: self.buffer.unwrap_or(base.buffer_flits),
            packet_flits_max: lengths.max(),
            ..base
        };
        let (buffer, vcs) = (generic.buffer_flits, generic.vcs);
        Ok((Profile::Generic(generic), buffer, vcs))
    }

    fn switching_rule(&self) -> Blamed<model::Switching> {
        match (self.switching, self.hold_switch) {
            (Some(Switching::Wormhole), hold) => Ok(model::Switching::Wormhole { hold: hold.unwrap_or(false) }),
            (_, None) => Ok(model::Switching::CutThrough),
            (_, Some(hold)) => {
                let why = "with cut-through a packet always keeps the switch; leave it out, or use switching wormhole";
                Err((Error::invalid("hold-switch", hold, why), "hold-switch"))
            }
        }
    }

    fn angara(&self, lengths: &Lengths, machine: Option<Machine>) -> Blamed<(Profile, u16, u8)> {
        if lengths.max() > ANGARA_FLITS_MAX {
            let why =
                format!("an angara packet has at most {ANGARA_FLITS_MAX} flits; use router generic for longer ones");
            return Err((Error::invalid("length", lengths, why), "length"));
        }
        if let Some(vcs) = self.vcs {
            let why = "router angara always has its five virtual channels; leave it out, or use router generic";
            return Err((Error::invalid("vcs", vcs, why), "vcs"));
        }
        if self.switching == Some(Switching::Wormhole) {
            let why = "router angara has virtual cut-through only; leave it out, or use router generic";
            return Err((Error::invalid("switching", "wormhole", why), "switching"));
        }
        if let Some(hold) = self.hold_switch {
            let why = "it belongs to switching wormhole of router generic; leave it out, or use that";
            return Err((Error::invalid("hold-switch", hold, why), "hold-switch"));
        }
        if let Some(ns) = self.cycle_ns {
            let why = "router angara counts in nanoseconds; use router-ns and link-ns, or router generic";
            return Err((Error::invalid("cycle-ns", ns, why), "cycle-ns"));
        }
        let params = machine.unwrap_or_else(Machine::plain).params();
        let default = Angara::from(params.map_err(|e| (Error::invalid("machine", "given", e.to_string()), "machine"))?);
        let time = |ns: Option<f64>, default: Tick, name| ns.map_or(Ok(default), |ns| picoseconds(ns, name));
        let slots = self.buffer.unwrap_or(default.slots);
        let angara = Angara {
            injection: time(self.injection_ns, default.injection, "injection-ns")?,
            ejection: time(self.ejection_ns, default.ejection, "ejection-ns")?,
            router: time(self.router_ns, default.router, "router-ns")?,
            link: time(self.link_ns, default.link, "link-ns")?,
            credit: time(self.credit_ns, default.credit, "credit-ns")?,
            escape: time(self.escape_ns, default.escape, "escape-ns")?,
            slots,
            // Each packet of a simulation says for itself.
            rest: Params { adaptive: false, ..default.rest },
            ..default
        };
        Ok((Profile::Angara(angara), slots, 5))
    }

    /// All faults as the fabric reads them.
    fn faults(&self, shape: &AnyTopology, router: Router) -> Blamed<Vec<String>> {
        let mut faults = Vec::new();
        for text in self.fault.iter().flatten() {
            faults.push((text.clone(), "fault"));
        }
        if let Some(rate) = &self.error_rate {
            faults.push((format!("corrupt={rate}"), "error-rate"));
        }
        let Some(&(ref text, key)) = faults.first() else { return Ok(Vec::new()) };
        if router == Router::Generic {
            return match &self.error_rate {
                Some(rate) => {
                    let why = "links of router generic carry all packets right; use router angara";
                    Err((Error::invalid("error-rate", rate, why), "error-rate"))
                }
                None => Ok(faults.into_iter().map(|(text, _)| text).collect()),
            };
        }
        let AnyTopology::Grid(grid) = shape else {
            let why = "router angara is for a torus or mesh; use router generic";
            return Err((Error::invalid(key, text, why), key));
        };
        // Sizes above 255 are refused as if they were 0.
        let sizes: Vec<u8> = grid.dims().iter().map(|&d| u8::try_from(d).unwrap_or(0)).collect();
        let live = angara_net::torus::Shape::new(&sizes, grid.wraps()).map_err(|_| {
            let why = "routes around faults are the chip's, for up to 4 sizes of up to 255 and 32768 nodes";
            (Error::invalid(key, text, why), key)
        })?;
        for (text, key) in &faults {
            check_fault(text, &live).map_err(|why| (Error::invalid(key, text, why), *key))?;
        }
        Ok(faults.into_iter().map(|(text, _)| text).collect())
    }

    /// The refusal of a routing; that of one which does not lead round faults says which do.
    fn round_faults(&self, refused: Error, router: Router, routing: &Routing) -> Error {
        match self.fault.iter().flatten().find(|fault| !AnyTopology::is_rate(fault)) {
            Some(fault) if router == Router::Generic => {
                let why =
                    format!("it does not lead round the fault `{fault}`; use updown, minimal, valiant or table:FILE");
                Error::invalid("routing", routing, why)
            }
            _ => refused,
        }
    }

    fn find_saturation(&self) -> Blamed<Option<f64>> {
        const KEY: &str = "find-saturation";
        let Some(resolution) = self.find_saturation else { return Ok(None) };
        if !(resolution > 0.0 && resolution <= 1.0) {
            let why = "give the distance in flits per node and cycle at which the search ends, such as 0.01";
            return Err((Error::invalid(KEY, resolution, why), KEY));
        }
        if let Some(load) = self.load {
            return Err((Error::invalid("load", load, "find-saturation searches it; leave it out"), "load"));
        }
        if let Some(trace) = &self.trace {
            return Err((
                Error::invalid("trace", trace, "find-saturation runs several networks; leave it out"),
                "trace",
            ));
        }
        Ok(Some(resolution))
    }

    fn schedule(&self) -> Blamed<Schedule> {
        let precision = self.precision.unwrap_or(0.01);
        if !(precision > 0.0 && precision < 1.0) {
            let e = Error::invalid("precision", precision, "give a share between 0 and 1, such as 0.01");
            return Err((e, "precision"));
        }
        if self.cycles == Some(0) {
            return Err((Error::invalid("cycles", 0, "measure at least one cycle"), "cycles"));
        }
        let fixed = self.warmup.unwrap_or(0).saturating_add(self.cycles.unwrap_or(0));
        let cycles_max = self.cycles_max.unwrap_or(400_000);
        if self.cycles_max.is_some() && fixed > cycles_max {
            let e = Error::invalid("cycles-max", cycles_max, format!("warmup and cycles alone take {fixed}"));
            return Err((e, "cycles-max"));
        }
        let cycles_max = cycles_max.max(fixed);
        Ok(Schedule { warmup: self.warmup, measure: self.cycles, precision, cycles_max })
    }
}

/// What settings of a machine keep others from, of those that a simulation without programs has.
fn caps(machine: &Machine, router: Router) -> Vec<String> {
    let simulated = |why: &String| ["link ", "slots ", "port-rate "].iter().any(|key| why.starts_with(key));
    let all = machine.values.bottlenecks();
    if router == Router::Angara { all.into_iter().filter(simulated).collect() } else { Vec::new() }
}

/// How packets of a topology find their way as it is.
fn own_routing(shape: &AnyTopology) -> Routing {
    shape.routing().into()
}

/// The shape with packets of generic routers that find their way like this, or as it takes itself, and that way.
///
/// # Errors
/// Which ways there are.
pub fn routed(shape: AnyTopology, routing: Option<Routing>) -> Result<(AnyTopology, Routing), Error> {
    let routing = routing.unwrap_or_else(|| own_routing(&shape));
    let shape = with_routing(shape, Router::Generic, &routing).map_err(|(e, _)| e)?;
    Ok((shape, routing))
}

/// What faults leave of a network of generic routers.
fn with_faults(shape: AnyTopology, faults: &[String], seed: u64) -> Blamed<AnyTopology> {
    if faults.iter().all(|fault| AnyTopology::is_rate(fault)) {
        return Ok(shape);
    }
    let now: Vec<String> = faults.iter().filter(|fault| is_from_the_beginning(fault)).cloned().collect();
    shape.with_faults(&now, seed).map_err(|e| {
        let text = if now.contains(&e.text) { e.text } else { faults.join("; ") };
        fault_refused(TopologyError { text, ..e })
    })
}

/// A fault of generic routers that takes something down for good, which is the shape's.
fn is_from_the_beginning(fault: &str) -> bool {
    !AnyTopology::is_rate(fault) && !AnyTopology::is_later(fault)
}

fn fault_refused(e: TopologyError) -> (Error, &'static str) {
    (Error::invalid("fault", e.text, e.why), "fault")
}

/// The shape with packets that find their way like this, if they can.
fn with_routing(shape: AnyTopology, router: Router, routing: &Routing) -> Blamed<AnyTopology> {
    let refuse = |why: String| (Error::invalid("routing", routing, why), "routing");
    match (routing, &shape) {
        (own, _) if *own == own_routing(&shape) => return Ok(shape),
        (Routing::Adaptive, AnyTopology::Grid(_)) if router == Router::Angara => return Ok(shape),
        (Routing::Table(path), _) if router == Router::Generic => return shape.with_table(path).map_err(refuse),
        (_, AnyTopology::Grid(_)) if router == Router::Angara => {
            return Err(refuse(format!(
                "{shape} with router angara takes dor or adaptive; router generic takes others"
            )));
        }
        _ => {}
    }
    shape.with_routing(routing.of_model()).map_err(|several| {
        let takes = if several.is_empty() { own_routing(&shape).to_string() } else { several };
        match shape {
            AnyTopology::Graph(_) | AnyTopology::Outside(_) => refuse(format!("{shape} takes {takes}")),
            _ => {
                refuse(format!("{shape} takes {takes}; any network takes minimal, valiant, updown and table:FILE, too"))
            }
        }
    })
}

/// Why a fault cannot be in a network of this shape.
fn check_fault(text: &str, shape: &angara_net::torus::Shape) -> Result<(), String> {
    Fault::parse(text, shape).map(drop).map_err(|mistake| format!("{}; {}", mistake.why, mistake.remedy()))
}

/// Messages of `mean` flits per node and cycle that make `load`.
fn rate(load: f64, mean: f64) -> Blamed<Rate> {
    Rate::messages(load / mean).map_err(|_| {
        let why =
            format!("a node creates at most one message per cycle, here of {mean} flits: give a load from 0 to {mean}");
        (Error::invalid("load", load, why), "load")
    })
}

/// Refuses a load that `process` cannot give.
fn check_process(process: Process, rate: Rate, load: f64, mean: f64) -> Blamed<()> {
    let most = process.rate_max();
    // The largest load, as it is printed, comes to no more than this when it is divided again.
    if rate.per_cycle() <= most * (1.0 + 1e-12) {
        return Ok(());
    }
    let why = format!(
        "process {process} creates messages in {:.4} of all cycles, each of {mean} flits on average: give a load from 0 \
         to {}, or be on for longer",
        most,
        most * mean
    );
    Err((Error::invalid("load", load, why), "load"))
}

/// Nanoseconds as a model time.
fn picoseconds(ns: f64, name: &'static str) -> Blamed<Tick> {
    if (0.0..=1e9).contains(&ns) {
        Ok((ns * 1000.0).round() as Tick)
    } else {
        Err((Error::invalid(name, ns, "give a time from 0 to 1e9 ns"), name))
    }
}

/// The setting a refusal of the network is about; its messages begin with the parameter's name.
fn network_key(message: &str) -> &'static str {
    let names = [
        ("vcs", "vcs"),
        ("buffer", "buffer"),
        ("slots", "buffer"),
        ("cycle", "cycle-ns"),
        ("router angara", "router"),
        ("routing", "routing"),
        ("switching", "switching"),
        ("packets of", "length"),
    ];
    names.iter().find(|(start, _)| message.starts_with(start)).map_or("topology", |(_, key)| key)
}

#[cfg(test)]
mod tests;
