//! What `cofferdam audit verify` finds and says.

use std::fs;

use serde_json::json;

use crate::log::Audited;

/// A log of six records, and its lines.
fn six() -> (Audited, Vec<String>) {
    let log = Audited::new();
    log.calls(3);
    let lines = log.text().lines().map(str::to_owned).collect();
    (log, lines)
}

#[track_caller]
fn fault(log: &Audited, lines: &[&str]) -> String {
    log.tamper(lines);
    let finished = log.audit(&["verify"]).expect_code(1);
    assert_eq!(finished.stdout.lines().count(), 1, "{finished:?}");
    assert_eq!(finished.stderr, "", "{finished:?}");
    let place = format!("{}:", log.path().display());
    finished.stdout.trim_end().replace(&place, "line ")
}

#[test]
fn an_altered_line_is_named() {
    let (log, lines) = six();
    let altered = lines[3].replace("\"done\"", "\"fail\"");
    assert_ne!(altered, lines[3]);
    let text = [&lines[0], &lines[1], &lines[2], &altered, &lines[4], &lines[5]];
    insta::assert_snapshot!(fault(&log, &text.map(String::as_str)), @"line 4: altered: this is not what was written as record 4");
}

#[test]
fn missing_lines_are_named() {
    let (log, lines) = six();
    insta::assert_snapshot!(fault(&log, &[&lines[0], &lines[1], &lines[4], &lines[5]]), @"line 3: missing: before this line records 3 to 4 should stand");
    insta::assert_snapshot!(fault(&log, &[&lines[0], &lines[2]]), @"line 2: missing: before this line record 2 should stand");
}

#[test]
fn reordered_lines_are_named() {
    let (log, lines) = six();
    insta::assert_snapshot!(fault(&log, &[&lines[0], &lines[2], &lines[1], &lines[3]]), @"line 3: reordered: record 2 stands after record 3");
    insta::assert_snapshot!(fault(&log, &[&lines[0], &lines[1], &lines[0]]), @"line 3: reordered: record 1 stands after record 2");
}

#[test]
fn torn_lines_are_named() {
    let (log, lines) = six();
    insta::assert_snapshot!(fault(&log, &[&lines[0], &lines[1][..50], &lines[2]]), @"line 2: torn: this line is no record, or not all of one");
    fs::write(log.path(), format!("{}\n{}", lines[0], lines[1])).expect("it can be written");
    log.audit(&["verify"]).expect_code(1);
}

#[test]
fn an_end_cut_off_is_found_with_a_hash_kept_elsewhere() {
    let (log, lines) = six();
    let verified = log.audit(&["verify"]).expect_code(0).stdout;
    let kept = verified.trim_end().rsplit_once(' ').expect("a hash").1.to_owned();
    log.audit(&["verify", "--expect", &kept]).expect_code(0);
    log.tamper(&[&lines[0], &lines[1]]);
    log.audit(&["verify"]).expect_code(0);
    let found = log.audit(&["verify", "--expect", &kept]).expect_code(1).stdout;
    assert!(found.contains("missing: no record has the expected hash"), "{found}");
    let json = log.audit(&["verify", "--json", "--expect", &kept]).expect_code(1).json();
    assert_eq!((&json["unbroken"], &json["fault"]), (&json!(false), &json!("missing")));
    log.audit(&["verify", "--expect", "123"]).expect_code(2);
}

#[test]
fn rotated_files_belong_to_it_in_any_order_in_which_a_shell_names_them() {
    let (log, lines) = six();
    // As eleven rotations would leave them: a shell lists `.10` before `.2`.
    let name = |number: usize| format!("{}.{number}", log.path().display());
    for (line, number) in lines[..5].iter().zip([11, 10, 9, 2, 1]) {
        fs::write(name(number), format!("{line}\n")).expect("it can be written");
    }
    log.tamper(&[&lines[5]]);
    let whole = log.audit(&["verify"]).expect_code(0).stdout;
    assert!(whole.starts_with("unbroken: 6 records, 1 to 6, in 6 files\n"), "{whole}");
    let path = log.path().to_string_lossy().into_owned();
    let named = [name(1), name(10), name(11), name(2), name(9), path];
    let named: Vec<_> = ["verify"].into_iter().chain(named.iter().map(String::as_str)).collect();
    assert_eq!(log.audit(&named).expect_code(0).stdout, whole);
    fs::remove_file(name(9)).expect("it can be removed");
    let found = log.audit(&["verify"]).expect_code(1).stdout;
    assert!(found.contains("missing: before this line record 3 should stand"), "{found}");
    fs::remove_file(name(10)).expect("it can be removed");
    fs::remove_file(name(11)).expect("it can be removed");
    let later = log.audit(&["verify"]).expect_code(0).stdout;
    assert!(later.contains("\nbegins at record 4: "), "{later}");
}

#[test]
fn a_torn_line_that_the_next_record_owns_to_is_told_and_no_fault() {
    let (log, lines) = six();
    fs::write(log.path(), format!("{}\n{}", lines[0], &lines[1][..50])).expect("it can be written");
    log.calls(1);
    let verified = log.audit(&["verify"]).expect_code(0).stdout;
    assert!(verified.contains("\ntorn by a crash, as the next record says: "), "{verified}");
    assert!(verified.contains("audit.jsonl:2\n"), "{verified}");
}

#[test]
fn a_log_that_is_not_there_is_an_error_with_a_hint() {
    let log = Audited::new();
    for command in [&["verify"][..], &["show"], &["tail"], &["verify", "/no/such/file"]] {
        let finished = log.audit(command).expect_code(1);
        finished.expect_error(&["opening the audit log", "\nhint: nothing has been recorded"]);
    }
}
