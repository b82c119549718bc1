//! What the chain shows, and what it cannot.

use proptest::prelude::*;

use super::*;
use crate::audit::record::Place as Where;

/// A chain of that many lines, with their newlines.
fn chain(length: usize) -> Vec<Vec<u8>> {
    let mut prev = Hash::NOTHING;
    (1..=length as u64)
        .map(|seq| {
            let call = format!("4f-{}", seq.div_ceil(2));
            let event = if seq % 2 == 1 { begin(&call) } else { end(&call) };
            let line = event.line(Where { seq, prev, time: at(seq) }).unwrap();
            prev = line.line_hash;
            line.bytes
        })
        .collect()
}

fn head(lines: &[Vec<u8>]) -> Hash {
    Record::read(lines.last().unwrap().trim_ascii_end()).unwrap().hash
}

fn verified(text: &[u8], expected: Option<Hash>) -> Result<Summary, Fault> {
    let mut verifier = Verifier::new(expected);
    for (line, bytes) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        let complete = bytes.ends_with(b"\n");
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        verifier.line(LinePlace { file: 0, line }, bytes, complete);
    }
    verifier.finish()
}

#[track_caller]
fn fault(text: &[u8]) -> (u64, FaultKind) {
    let fault = verified(text, None).expect_err("a fault");
    (fault.place.line, fault.kind)
}

/// The same record, its own hash made anew after a change: what a careful forger does.
fn forged(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(line.to_vec()).unwrap();
    let (body, _) = text.rsplit_once(",\"hash\"").unwrap();
    let body = body.replace(from, to);
    assert!(!text.starts_with(&body), "nothing was changed");
    let hash = Hash::of(format!("{body}}}").as_bytes());
    format!("{body},\"hash\":\"{hash}\"}}\n").into_bytes()
}

#[test]
fn an_unbroken_chain_is_summed_up() {
    let lines = chain(5);
    let summary = verified(&lines.concat(), Some(head(&lines))).unwrap();
    assert_eq!((summary.records, summary.first), (5, Some(1)));
    assert_eq!(summary.last, Some((5, head(&lines))));
    let unfinished: Vec<_> =
        summary.unfinished.iter().map(|call| (call.place.line, call.begin.text("call"))).collect();
    assert_eq!(unfinished, [(5, Some("4f-3"))], "a begin without an end is no fault");
}

#[test]
fn an_empty_log_is_unbroken_but_holds_no_expected_record() {
    assert_eq!(verified(b"", None), Ok(Summary::default()));
    let hash = Hash::of(b"x");
    assert_eq!(verified(b"", Some(hash)).unwrap_err().kind, FaultKind::Expected { hash });
}

#[test]
fn a_forged_record_is_found_by_the_one_after_it() {
    let mut lines = chain(4);
    lines[1] = forged(&lines[1], "denied", "busy!!");
    assert_eq!(fault(&lines.concat()), (2, FaultKind::Replaced { next: 3 }));
}

#[test]
fn a_forged_last_record_is_found_only_by_its_hash_from_elsewhere() {
    let mut lines = chain(4);
    let known = head(&lines);
    lines[3] = forged(&lines[3], "denied", "busy!!");
    assert!(verified(&lines.concat(), None).is_ok());
    let fault = verified(&lines.concat(), Some(known)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Expected { hash: known });
}

#[test]
fn a_first_record_that_follows_something_is_found() {
    let mut lines = chain(1);
    lines[0] = forged(&lines[0], &Hash::NOTHING.to_string(), &Hash::of(b"x").to_string());
    assert_eq!(fault(&lines.concat()), (1, FaultKind::Altered { seq: 1 }));
}

#[test]
fn records_rotated_away_are_no_fault_but_are_told() {
    let lines = chain(5);
    let summary = verified(&lines[2..].concat(), None).unwrap();
    assert_eq!((summary.first, summary.records), (Some(3), 3));
    assert_eq!(verified(&lines[1..].concat(), None).unwrap().without_begin, 1);
}

#[test]
fn a_torn_line_is_a_fault_unless_the_next_record_owns_to_it() {
    let lines = chain(2);
    let torn = &chain(3)[2][..40];
    let recovered = |prev| {
        let event = Event::Recovered { torn_bytes: 40 };
        event.line(Where { seq: 3, prev, time: at(9) }).unwrap().bytes
    };
    let text = |after: &[u8]| [lines.concat().as_slice(), torn, b"\n", after].concat();
    let summary = verified(&text(&recovered(Hash::of(torn))), None).unwrap();
    assert_eq!(summary.recovered, [LinePlace { file: 0, line: 3 }]);
    assert_eq!(summary.records, 3);
    assert_eq!(fault(&text(&recovered(Hash::of(b"other")))), (3, FaultKind::Torn));
    assert_eq!(fault(&text(b"")), (3, FaultKind::Torn));
    assert_eq!(fault(&text(&chain(3)[2])), (3, FaultKind::Torn));
    assert_eq!(fault(&text(b"torn too\n")), (3, FaultKind::Torn));
    let whole = lines.concat();
    assert_eq!(fault(&whole[..whole.len() - 1]), (2, FaultKind::Torn), "its newline is missing");
}

#[test]
fn numbers_at_their_end_are_no_trap() {
    let lines = chain(2);
    let last = forged(&lines[1], "\"seq\":2", &format!("\"seq\":{}", u64::MAX));
    let text = [lines[0].as_slice(), &last].concat();
    assert_eq!(fault(&text), (2, FaultKind::Missing { from: 2, to: u64::MAX - 1 }));
    let zero = forged(&lines[0], "\"seq\":1", "\"seq\":0");
    assert_eq!(fault(&[zero.as_slice(), &zero].concat()).0, 2);
}

proptest! {
    #[test]
    fn any_altered_byte_is_found(length in 1_usize..8, at: prop::sample::Index, new: u8) {
        let mut text = chain(length).concat();
        let at = at.index(text.len());
        prop_assume!(text[at] != new);
        text[at] = new;
        prop_assert!(verified(&text, None).is_err());
    }

    #[test]
    fn any_byte_that_is_removed_or_added_is_found(
        length in 1_usize..8, at: prop::sample::Index, new: Option<u8>,
    ) {
        let mut text = chain(length).concat();
        let at = at.index(text.len());
        match new {
            Some(new) => text.insert(at, new),
            None => drop(text.remove(at)),
        }
        prop_assert!(verified(&text, None).is_err());
    }

    #[test]
    fn any_lines_removed_from_the_middle_are_named(
        length in 3_usize..12, first: prop::sample::Index, count: prop::sample::Index,
    ) {
        let mut lines = chain(length);
        // Neither the first line nor the last one.
        let first = 1 + first.index(length - 2);
        let count = 1 + count.index(length - 1 - first);
        lines.drain(first..first + count);
        let (from, to) = (first as u64 + 1, (first + count) as u64);
        prop_assert_eq!(fault(&lines.concat()), (from, FaultKind::Missing { from, to }));
    }

    #[test]
    fn a_line_that_stands_elsewhere_is_named(
        length in 3_usize..12, from: prop::sample::Index, to: prop::sample::Index,
    ) {
        let mut lines = chain(length);
        let (from, to) = (1 + from.index(length - 1), 1 + to.index(length - 1));
        prop_assume!(from != to);
        let line = lines.remove(from);
        lines.insert(to, line);
        let (_, kind) = fault(&lines.concat());
        prop_assert!(matches!(kind, FaultKind::Reordered { .. }), "{:?}", kind);
    }

    #[test]
    fn a_line_that_stands_twice_is_named(length in 1_usize..12, which: prop::sample::Index) {
        let mut lines = chain(length);
        let which = which.index(length);
        lines.insert(which, lines[which].clone());
        let seq = which as u64 + 1;
        prop_assert_eq!(fault(&lines.concat()), (seq + 1, FaultKind::Reordered { seq, after: seq }));
    }

    #[test]
    fn an_end_cut_off_is_found_by_a_hash_from_elsewhere_and_only_so(
        length in 2_usize..12, left: prop::sample::Index,
    ) {
        let lines = chain(length);
        let left = &lines[..1 + left.index(length - 1)];
        prop_assert!(verified(&left.concat(), None).is_ok());
        let hash = head(&lines);
        let fault = verified(&left.concat(), Some(hash)).unwrap_err();
        prop_assert_eq!(fault.kind, FaultKind::Expected { hash });
        // A hash that is older than what was cut off is still there.
        prop_assert!(verified(&left.concat(), Some(head(&lines[..1]))).is_ok());
    }

    #[test]
    fn nothing_makes_the_verifier_fail_otherwise(text: Vec<u8>) {
        let _ = verified(&text, None);
    }
}
