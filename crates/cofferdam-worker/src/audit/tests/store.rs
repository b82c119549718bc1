//! What the writer holds to: one chain, whatever happens to the file.

use std::{
    os::unix::fs::{PermissionsExt, symlink},
    thread,
};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;
use crate::audit::store::{Head, Store};

fn store(place: &Place) -> Store {
    Store::new(place.settings())
}

fn append(store: &mut Store, count: usize) -> Head {
    let one = |_| store.append(&begin("4f-1"), at(1)).unwrap();
    (0..count).map(one).last().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_log_and_its_folder_are_made_for_their_owner_alone() {
    let place = Place::new();
    let head = append(&mut store(&place), 1);
    assert_eq!(head.seq, 1);
    assert_eq!(mode(&place.path()), 0o600);
    assert_eq!(mode(place.path().parent().unwrap()), 0o700);
}

#[test]
fn the_chain_goes_on_over_restarts() {
    let place = Place::new();
    append(&mut store(&place), 3);
    let head = append(&mut store(&place), 2);
    let summary = place.verify().unwrap();
    assert_eq!((summary.records, summary.last), (5, Some((5, head.hash))));
}

#[test]
fn two_writers_make_one_chain() {
    let place = Place::new();
    let (mut one, mut other) = (store(&place), store(&place));
    for _ in 0..20 {
        append(&mut one, 1);
        append(&mut other, 2);
    }
    assert_eq!(place.verify().unwrap().records, 60);
}

#[test]
fn writers_at_the_same_time_make_one_chain_over_rotations() {
    let place = Place::new();
    let settings = AuditSettings { rotate_bytes: 5000, keep: 1000, ..place.settings() };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| append(&mut Store::new(settings.clone()), 50));
        }
    });
    let parts = open_all(&place.path()).unwrap();
    assert!(parts.len() > 5, "{}", parts.len());
    let summary = verify(&parts, None).unwrap().unwrap();
    assert_eq!((summary.records, summary.first), (200, Some(1)));
}

#[test]
fn the_first_record_of_a_new_file_names_the_last_one_of_the_old() {
    let place = Place::new();
    let settings = AuditSettings { rotate_bytes: 1000, keep: 2, ..place.settings() };
    append(&mut Store::new(settings.clone()), 3);
    // The next process finds the file that was just begun, or none.
    append(&mut Store::new(settings.clone()), 7);
    let parts = open_all(&place.path()).unwrap();
    let names: Vec<_> = parts.iter().map(|part| part.path().file_name().unwrap()).collect();
    assert_eq!(names, ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]);
    let summary = verify(&parts, None).unwrap().unwrap();
    assert_eq!(summary.last.unwrap().0, 10);
    assert!(summary.first.unwrap() > 1, "older ones are gone: {summary:?}");
    for part in &parts {
        assert_eq!(mode(part.path()), 0o600);
        assert!(fs::metadata(part.path()).unwrap().len() <= 1000);
    }
}

#[test]
fn an_interrupted_rotation_loses_nothing() {
    let place = Place::new();
    append(&mut store(&place), 2);
    fs::rename(place.path(), files::rotated(&place.path(), 1)).unwrap();
    append(&mut store(&place), 1);
    // A gap, as when the process was killed between two renames.
    fs::rename(files::rotated(&place.path(), 1), files::rotated(&place.path(), 2)).unwrap();
    fs::rename(place.path(), files::rotated(&place.path(), 1)).unwrap();
    append(&mut store(&place), 1);
    assert_eq!(place.verify().unwrap().last.unwrap().0, 4);
}

#[test]
fn a_lower_keep_removes_what_is_over_it() {
    let place = Place::new();
    let settings = |keep| AuditSettings { rotate_bytes: 1, keep, ..place.settings() };
    append(&mut Store::new(settings(5)), 8);
    assert_eq!(open_all(&place.path()).unwrap().len(), 6);
    append(&mut Store::new(settings(2)), 1);
    assert_eq!(open_all(&place.path()).unwrap().len(), 3);
}

#[test]
fn a_torn_end_is_kept_and_owned_to() {
    let place = Place::new();
    append(&mut store(&place), 2);
    let text = place.text();
    let (whole, last) = text.trim_end().rsplit_once('\n').unwrap();
    for torn in ["{", "{\"seq\":2,\"ti", &last[..last.len() - 1]] {
        write(&place.path(), format!("{whole}\n{torn}"));
        append(&mut store(&place), 1);
        assert!(place.text().contains(&format!("\n{torn}\n")), "{torn}");
        let summary = place.verify().unwrap();
        assert_eq!((summary.records, summary.recovered.len()), (3, 1), "{torn}");
    }
}

#[test]
fn a_first_line_that_is_torn_is_owned_to() {
    let place = Place::new();
    write(&place.path(), "{\"seq\":1,\"time");
    append(&mut store(&place), 1);
    let summary = place.verify().unwrap();
    assert_eq!((summary.first, summary.records, summary.recovered.len()), (Some(1), 2, 1));
}

#[test]
fn a_record_that_lacks_only_its_newline_is_completed() {
    let place = Place::new();
    append(&mut store(&place), 2);
    write(&place.path(), place.text().trim_end());
    append(&mut store(&place), 1);
    let summary = place.verify().unwrap();
    assert_eq!((summary.records, summary.recovered.len()), (3, 0));
}

#[test]
fn nothing_is_added_to_a_file_that_is_no_log() {
    let place = Place::new();
    for text in ["alias ls=rm\n", "{\"seq\":1}\n", "notes", "\n", "{}", "a\n{\"seq\":1,"] {
        write(&place.path(), text);
        for error in [
            store(&place).append(&begin("4f-1"), at(1)).unwrap_err(),
            store(&place).check().unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::NotALog(_)), "{text:?}: {error:?}");
        }
        assert_eq!(place.text(), text);
    }
}

#[test]
fn what_is_cut_off_while_it_is_written_is_found() {
    let place = Place::new();
    let mut store = store(&place);
    append(&mut store, 4);
    let text = place.text();
    let left: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    write(&place.path(), left);
    append(&mut store, 1);
    let fault = place.verify().unwrap_err();
    assert_eq!(fault.kind, FaultKind::Missing { from: 3, to: 4 });
    assert_eq!(fault.place.line, 3);
}

#[test]
fn a_last_record_that_is_forged_while_it_is_written_is_found() {
    let place = Place::new();
    let mut store = store(&place);
    append(&mut store, 2);
    let text = place.text();
    let (first, last) = text.trim_end().split_once('\n').unwrap();
    let (body, _) = last.rsplit_once(",\"hash\"").unwrap();
    let body = body.replace("stdio", "stdin forged");
    let hash = Hash::of(format!("{body}}}").as_bytes());
    write(&place.path(), format!("{first}\n{body},\"hash\":\"{hash}\"}}\n"));
    assert!(place.verify().is_ok(), "nobody can see it yet");
    append(&mut store, 1);
    assert_eq!(place.verify().unwrap_err().kind, FaultKind::Replaced { next: 3 });
}

#[test]
fn a_log_that_is_removed_while_it_is_written_goes_on_with_its_number() {
    let place = Place::new();
    let mut store = store(&place);
    append(&mut store, 4);
    fs::remove_file(place.path()).unwrap();
    append(&mut store, 1);
    assert_eq!(place.verify().unwrap().first, Some(5));
}

#[test]
fn a_link_is_not_followed_and_its_target_not_changed() {
    let place = Place::new();
    let target = place.0.path().join("target");
    for exists in [false, true] {
        if exists {
            fs::write(&target, "").unwrap();
        } else {
            fs::create_dir_all(place.path().parent().unwrap()).unwrap();
            symlink(&target, place.path()).unwrap();
        }
        let error = store(&place).append(&begin("4f-1"), at(1)).unwrap_err();
        assert!(matches!(error, StoreError::Files(FilesError::NotAFile(_))), "{error:?}");
        assert_eq!(fs::metadata(&target).map(|target| target.len()).unwrap_or(0), 0);
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    assert!(store(&place).check().is_err());
    fs::remove_dir(place.path()).unwrap();
    mkfifoat(CWD, place.path(), Mode::RUSR | Mode::WUSR).unwrap();
    let error = store(&place).check().unwrap_err();
    assert!(matches!(error, StoreError::Files(FilesError::NotAFile(_))), "{error:?}");
    assert!(open_all(&place.path()).is_err());
}

#[test]
fn a_log_that_others_may_write_is_refused() {
    let place = Place::new();
    append(&mut store(&place), 1);
    let folder = place.path().parent().unwrap().to_owned();
    let set =
        |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let refused = || {
        let error = store(&place).append(&begin("4f-1"), at(1));
        matches!(error, Err(StoreError::Files(FilesError::WritableByOthers(_))))
    };
    for (path, mode, expected) in [
        (&place.path(), 0o660, true),
        (&place.path(), 0o602, true),
        (&place.path(), 0o640, false),
        (&folder, 0o777, true),
        (&folder, 0o770, true),
        // Only its owner can replace a file there.
        (&folder, 0o1777, false),
        (&folder, 0o755, false),
    ] {
        set(path, mode);
        assert_eq!(refused(), expected, "{} {mode:o}", path.display());
    }
}

#[test]
fn a_follower_hears_of_each_record_once_over_a_rotation() {
    let place = Place::new();
    let settings = AuditSettings { rotate_bytes: 2000, ..place.settings() };
    let mut store = Store::new(settings);
    append(&mut store, 2);
    let mut follower = Follower::after(&place.path(), open_all(&place.path()).unwrap());
    let mut numbers = || -> Vec<u64> {
        let news = follower.news().unwrap();
        news.iter().map(|line| line.record().unwrap().seq).collect()
    };
    assert_eq!(numbers(), [0; 0]);
    append(&mut store, 1);
    assert_eq!(numbers(), [3]);
    append(&mut store, 4);
    assert_eq!(numbers(), [4, 5, 6, 7]);
    assert!(files::rotated(&place.path(), 1).exists(), "there was a rotation");
    assert_eq!(numbers(), [0; 0]);
}

#[test]
fn lines_of_any_length_are_read_in_bounded_memory() {
    let place = Place::new();
    write(&place.path(), format!("{}\nshort\nno newline", "x".repeat(1_000_000)));
    let part = LogPart::open(&place.path()).unwrap();
    let lines: Vec<_> = part.lines().map(|line| line.unwrap()).collect();
    let lengths: Vec<_> = lines.iter().map(|line| (line.bytes.len(), line.complete)).collect();
    assert_eq!(lengths, [(MOST_LINE_BYTES + 1, true), (5, true), (10, false)]);
}
