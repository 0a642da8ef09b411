//! The matching rules against a list that is searched from its beginning.

use super::*;
use proptest::prelude::*;

/// Two lists in order of time.
#[derive(Default)]
struct Naive {
    posted: Vec<(Want, usize)>,
    unexpected: Vec<(Source, u64, usize)>,
}

impl Naive {
    fn message(&mut self, source: Source, tag: u64, number: usize) -> Option<usize> {
        let fits = |w: &Want| w.source.is_none_or(|s| s == source) && w.tag & !w.ignore == tag & !w.ignore;
        match self.posted.iter().position(|(want, _)| fits(want)) {
            Some(at) => Some(self.posted.remove(at).1),
            None => {
                self.unexpected.push((source, tag, number));
                None
            }
        }
    }
    fn find(&self, w: &Want) -> Option<usize> {
        let fits = |(source, tag, _): &(Source, u64, usize)| {
            w.source.is_none_or(|s| s == *source) && w.tag & !w.ignore == tag & !w.ignore
        };
        self.unexpected.iter().position(fits)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Message(Source, u64),
    Receive(Want),
    Peek(Want),
    Cancel(usize),
}

fn want() -> impl Strategy<Value = Want> {
    let ignore = prop_oneof![3 => Just(0u64), 1 => Just(!0u64), 1 => 0u64..8];
    (prop::option::of(0u32..3), 0u64..6, ignore).prop_map(|(source, tag, ignore)| Want { source, tag, ignore })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u32..3, 0u64..6).prop_map(|(source, tag)| Step::Message(source, tag)),
        5 => want().prop_map(Step::Receive),
        1 => want().prop_map(Step::Peek),
        1 => (0usize..40).prop_map(Step::Cancel),
    ]
}

/// Messages and receives in turn, or many of one before the other, so that there are tables.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let message = || (0u32..3, 0u64..6).prop_map(|(source, tag)| Step::Message(source, tag));
    let first = prop_oneof![
        Just(Vec::new()).boxed(),
        prop::collection::vec(message(), 10..60).boxed(),
        prop::collection::vec(want().prop_map(Step::Receive), 10..60).boxed(),
    ];
    (first, prop::collection::vec(step(), 1..120)).prop_map(|(first, then)| [first, then].concat())
}

proptest! {
    #[test]
    fn every_message_goes_where_the_lists_say(steps in steps()) {
        let (mut real, mut naive) = (Matching::<usize, usize>::new(), Naive::default());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Message(source, tag) => {
                    let got = real.receiver(source, tag).map(|at| real.take_posted(at));
                    if got.is_none() {
                        real.arrive(source, tag, number);
                    }
                    prop_assert_eq!(got, naive.message(source, tag, number));
                }
                Step::Receive(want) => {
                    let got = real.find(&want).map(|at| real.take_message(at));
                    let wanted = naive.find(&want).map(|at| naive.unexpected.remove(at));
                    prop_assert_eq!(got, wanted);
                    if wanted.is_none() {
                        real.post(want, number);
                        naive.posted.push((want, number));
                    }
                }
                Step::Peek(want) => {
                    let got = real.find(&want).map(|at| *real.message(at).2);
                    prop_assert_eq!(got, naive.find(&want).map(|at| naive.unexpected[at].2));
                }
                Step::Cancel(number) => {
                    let mut got = real.posted_where(|_, receive| *receive == number);
                    prop_assert!(got.len() <= 1);
                    let got = got.pop().map(|at| real.take_posted(at));
                    let at = naive.posted.iter().position(|(_, n)| *n == number);
                    prop_assert_eq!(got, at.map(|at| naive.posted.remove(at).1));
                }
            }
            prop_assert_eq!(real.posted_len(), naive.posted.len());
            let waiting: Vec<_> = real.kept().map(|(source, tag, number)| (source, tag, *number)).collect();
            prop_assert_eq!(waiting, naive.unexpected.clone());
        }
    }
}

/// Bits of a tag that MPICH ignores in every receive, and those of the program's tag, which it ignores for any tag.
const PROTOCOL: u64 = 7 << 60;
const TAG: u64 = (1 << 31) - 1;

/// The order in which `many` are received: as they came, the last first, or any.
fn orders(many: u64) -> [Vec<u64>; 3] {
    let in_order: Vec<u64> = (0..many).collect();
    // A prime that is no divisor: every number once.
    let mixed = in_order.iter().map(|i| i * 7_654_321 % many).collect();
    [in_order.clone(), in_order.into_iter().rev().collect(), mixed]
}

/// Steps for one of `many` messages in the worst of the orders, waiting for receives or found by them.
fn steps_of_each(many: u64, kinds: &[Want]) -> u64 {
    let mut most = 0;
    for order in orders(many) {
        let want = |tag: u64| {
            let kind = kinds[tag as usize % kinds.len()];
            Want { tag: tag & !kind.ignore, ..kind }
        };
        let mut matching = Matching::<u64, u64>::new();
        for tag in 0..many {
            matching.arrive(7, tag, tag);
        }
        for tag in &order {
            let at = matching.find(&want(*tag)).expect("it has arrived");
            assert_eq!(matching.take_message(at), (7, *tag, *tag));
        }
        (0..many).for_each(|tag| matching.post(want(tag), tag));
        for tag in &order {
            let at = matching.receiver(7, *tag).expect("it is posted");
            assert_eq!(matching.take_posted(at), *tag);
        }
        most = most.max(matching.steps.get() / many);
    }
    most
}

#[test]
fn a_message_takes_as_many_steps_however_many_wait_and_in_any_order() {
    let masks = [0, PROTOCOL, PROTOCOL | 1 << 59];
    let sources = [Some(7), None];
    let all = masks.map(|ignore| sources.map(|source| Want { source, tag: 0, ignore })).concat();
    for kinds in [&all[..1], &all[2..3], &all] {
        let [few, many] = [1000, 100_000].map(|many| steps_of_each(many, kinds));
        assert!(many <= few + 1 && many < 50, "{few} steps among 1,000, {many} among 100,000");
    }
}

#[test]
fn receives_of_any_tag_take_what_came_first_among_many_others() {
    const MANY: u64 = 100_000;
    let mut matching = Matching::<(), u64>::new();
    // Two communicators in turn.
    for i in 0..MANY {
        matching.arrive((i % 3) as Source, (i % 2) << 32 | (i * 31 % 1000), i);
    }
    for i in (1..MANY).step_by(2) {
        let want = Want { source: None, tag: 1 << 32, ignore: PROTOCOL | TAG };
        let at = matching.find(&want).expect("it has arrived");
        assert_eq!(matching.take_message(at).2, i);
    }
    assert!(matching.steps.get() < 10 * MANY, "{} steps", matching.steps.get());
}

#[test]
fn a_receive_that_stays_is_found_again() {
    let mut matching = Matching::<u32, ()>::new();
    matching.post(Want { source: None, tag: 0, ignore: 0 }, 0);
    for i in 1..5 {
        let at = matching.receiver(i, 0).expect("it is posted");
        *matching.posted_mut(at) += 1;
        assert_eq!(*matching.posted_mut(at), i);
    }
}
