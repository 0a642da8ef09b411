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

proptest! {
    #[test]
    fn every_message_goes_where_the_lists_say(steps in prop::collection::vec(step(), 1..120)) {
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

/// Would take days if each receive looked at all messages.
#[test]
fn a_million_unexpected_messages_are_received_in_reverse() {
    const MANY: u64 = 1_000_000;
    let mut matching = Matching::<(), u64>::new();
    for tag in 0..MANY {
        matching.arrive(7, tag, tag);
    }
    for tag in (0..MANY).rev() {
        let source = (tag % 2 == 0).then_some(7);
        let at = matching.find(&Want { source, tag, ignore: 0 }).expect("it has arrived");
        assert_eq!(matching.take_message(at), (7, tag, tag));
    }
    assert_eq!(matching.find(&Want { source: None, tag: 0, ignore: !0 }), None);
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
