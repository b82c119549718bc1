//! Whether lines are the chain that was written: nothing altered, missing, reordered or torn.
//!
//! Pure: lines in, the first fault or a summary out. What no chain can show is said in
//! `docs/audit.md`: lines cut off at the end, without a hash kept elsewhere, and a chain made anew by
//! somebody who may write the file.

use std::collections::{HashMap, HashSet};

use super::{hash::Hash, record::Record};

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePlace {
    /// Which of the files, from 0.
    pub file: usize,
    /// Which of its lines, from 1.
    pub line: u64,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: LinePlace,
    /// What.
    pub kind: FaultKind,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The record is not what was written.
    #[error("altered: this is not what was written as record {seq}")]
    Altered {
        /// Its number, as it says now.
        seq: u64,
    },
    /// The record was replaced by another whose own hash is right: the next one does not go on from it.
    #[error("altered: record {next} was not written after this line")]
    Replaced {
        /// Number of the next record.
        next: u64,
    },
    /// It is no record, or only the beginning of one.
    #[error("torn: this line is no record, or not all of one")]
    Torn,
    /// Records that should stand before this line are nowhere.
    #[error("missing: before this line {}", records(*.from, *.to))]
    Missing {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// The record does not stand where it was written.
    #[error("reordered: record {seq} stands after record {after}")]
    Reordered {
        /// Its number.
        seq: u64,
        /// Number of a record before it.
        after: u64,
    },
    /// The record whose hash is known from elsewhere is not there.
    #[error(
        "missing: no record has the expected hash {hash}, so the end of the log was cut off or made anew"
    )]
    Expected {
        /// What was expected.
        hash: Hash,
    },
}

fn records(from: u64, to: u64) -> String {
    if from == to {
        format!("record {from} should stand")
    } else {
        format!("records {from} to {to} should stand")
    }
}

/// A call that began and did not end: it is under way, or whoever carried it out was killed.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfinished {
    /// Where it began.
    pub place: LinePlace,
    /// The record of its beginning.
    pub begin: Record,
}

/// What an unbroken chain holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many records.
    pub records: u64,
    /// Number of the first one; what was before it has been rotated away, or cut off.
    pub first: Option<u64>,
    /// Number and hash of the last one.
    pub last: Option<(u64, Hash)>,
    /// Calls that began and did not end, in order.
    pub unfinished: Vec<Unfinished>,
    /// Ends of calls whose beginning was not recorded, or was rotated away.
    pub without_begin: u64,
    /// Servers that started and did not stop: they run, or were killed.
    pub not_stopped: u64,
    /// Torn lines that the next record owns to.
    pub recovered: Vec<LinePlace>,
}

/// Reads lines in order.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    summary: Summary,
    expected: Option<Hash>,
    before: Option<Before>,
    begun: HashMap<String, Unfinished>,
    started: HashSet<String>,
    fault: Option<Fault>,
}

/// The line before.
#[derive(Clone, Copy, Debug)]
struct Before {
    place: LinePlace,
    line_hash: Hash,
    torn: bool,
}

impl Verifier {
    /// Begins. With a hash, one of the records must have it.
    pub fn new(expected: Option<Hash>) -> Self {
        Self { expected, ..Self::default() }
    }

    /// The next line, without its newline; `complete` tells whether it had one.
    pub fn line(&mut self, place: LinePlace, line: &[u8], complete: bool) {
        let record = Record::read(line).filter(|_| complete);
        if self.fault.is_some() {
            self.classify(place, record.as_ref());
            return;
        }
        if let Err(fault) = self.check(place, line, record) {
            self.fault = Some(fault);
        }
    }

    /// What was found.
    ///
    /// # Errors
    /// The first fault.
    pub fn finish(self) -> Result<Summary, Fault> {
        let Self { mut summary, expected, before, begun, started, fault } = self;
        if let Some(fault) = fault {
            return Err(fault);
        }
        let place = before.map_or(LinePlace { file: 0, line: 1 }, |before| before.place);
        if before.is_some_and(|before| before.torn) {
            return Err(Fault { place, kind: FaultKind::Torn });
        }
        if let Some(hash) = expected {
            return Err(Fault { place, kind: FaultKind::Expected { hash } });
        }
        summary.unfinished = begun.into_values().collect();
        summary.unfinished.sort_by_key(|call| call.place);
        summary.not_stopped = started.len() as u64;
        Ok(summary)
    }

    fn check(
        &mut self,
        place: LinePlace,
        line: &[u8],
        record: Option<Record>,
    ) -> Result<(), Fault> {
        let before = self.before;
        let Some(record) = record else {
            // The next record may own to it; two in a row are never owned to.
            return match before {
                Some(before) if before.torn => torn(before.place),
                _ => {
                    let line_hash = Hash::of(line);
                    self.before = Some(Before { place, line_hash, torn: true });
                    Ok(())
                }
            };
        };
        let seq = record.seq;
        let owns_to_torn = record.text("event") == Some("recovered");
        if let Some(before) = before.filter(|before| before.torn)
            && !(owns_to_torn && record.intact && record.prev == before.line_hash)
        {
            return torn(before.place);
        }
        let wrong = |place, kind| Err(Fault { place, kind });
        if !record.intact {
            return wrong(place, FaultKind::Altered { seq });
        }
        match self.summary.last {
            Some((after, _)) if seq <= after => {
                return wrong(place, FaultKind::Reordered { seq, after });
            }
            Some((after, _)) if seq - 1 > after => {
                return wrong(place, FaultKind::Missing { from: after + 1, to: seq - 1 });
            }
            // Nothing is before the first record ever.
            None if seq == 1 && before.is_none() && record.prev != Hash::NOTHING => {
                return wrong(place, FaultKind::Altered { seq });
            }
            _ => {}
        }
        if let Some(before) = before
            && before.line_hash != record.prev
        {
            return wrong(before.place, FaultKind::Replaced { next: seq });
        }
        if let Some(before) = before.filter(|before| before.torn) {
            self.summary.recovered.push(before.place);
        }
        self.before = Some(Before { place, line_hash: record.line_hash, torn: false });
        self.count(place, record);
        Ok(())
    }

    fn count(&mut self, place: LinePlace, record: Record) {
        let summary = &mut self.summary;
        summary.records += 1;
        summary.first.get_or_insert(record.seq);
        summary.last = Some((record.seq, record.hash));
        if self.expected == Some(record.hash) {
            self.expected = None;
        }
        let named = |key| record.text(key).unwrap_or_default().to_owned();
        match record.text("event") {
            Some("begin") => {
                self.begun.insert(named("call"), Unfinished { place, begin: record });
            }
            Some("end") => {
                let began = self.begun.remove(&named("call")).is_some();
                summary.without_begin += u64::from(!began);
            }
            Some("start") => {
                self.started.insert(named("instance"));
            }
            Some("stop") => {
                self.started.remove(&named("instance"));
            }
            _ => {}
        }
    }

    /// What seemed to be missing may stand further down.
    fn classify(&mut self, place: LinePlace, record: Option<&Record>) {
        if let Some(Fault { kind: FaultKind::Missing { from, to }, .. }) = self.fault
            && let Some(record) = record
            && record.intact
            && (from..=to).contains(&record.seq)
        {
            let kind = FaultKind::Reordered { seq: record.seq, after: to + 1 };
            self.fault = Some(Fault { place, kind });
        }
    }
}

fn torn<T>(place: LinePlace) -> Result<T, Fault> {
    Err(Fault { place, kind: FaultKind::Torn })
}
