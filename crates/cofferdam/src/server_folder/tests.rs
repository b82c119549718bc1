//! Claims about private folders.

use std::os::unix::fs::symlink;

use super::*;

fn place() -> tempfile::TempDir {
    let private = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().expect("a folder")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it can be listed");
    entries.map(|entry| entry.expect("it").file_name().into_string().expect("it")).collect()
}

#[test]
fn a_folder_is_made_private_and_goes_with_its_server() -> Result<(), FolderError> {
    let place = place();
    let base = place.path().join("base");
    let folder = ServerFolder::create_in(&base)?;
    assert_eq!(folder.path(), base.join(process::id().to_string()));
    for made in [&base, folder.path()] {
        let mode = fs::metadata(made).expect("it").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", made.display());
    }
    assert!(is_held(folder.path()));
    drop(folder);
    assert_eq!(names(place.path()), Vec::<String>::new());
    Ok(())
}

#[test]
fn what_a_dead_server_left_is_removed_and_a_live_one_is_left_alone() -> Result<(), FolderError> {
    let place = place();
    let (live, dead) = (place.path().join("4194305"), place.path().join("4194306"));
    for folder in [&live, &dead] {
        fs::DirBuilder::new().mode(0o700).create(folder).expect("a folder");
        fs::write(folder.join("tools.json"), "[]").expect("a file");
    }
    for other in ["keep", "0123"] {
        fs::write(place.path().join(other), "").expect("a file");
    }
    // A worker whose supervisor has died.
    let worker = ServerFolder::join(&live)?;
    let folder = ServerFolder::create_in(place.path())?;
    assert!(live.join("tools.json").exists());
    assert!(!dead.exists());
    drop(folder);
    drop(worker);
    assert!(live.exists(), "only who made it removes it");
    let mut left = names(place.path());
    left.sort();
    assert_eq!(left, ["0123", "4194305", "keep"]);
    Ok(())
}

#[test]
fn a_folder_that_others_could_enter_is_refused() {
    let place = place();
    for mode in [0o755, 0o777, 0o710, 0o1777] {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).expect("ours");
        let error = ServerFolder::create_in(place.path()).expect_err("it is open");
        assert!(matches!(error, FolderError::Open { .. }), "{mode:o}: {error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_is_refused() {
    let place = place();
    let (theirs, link) = (place.path().join("theirs"), place.path().join("link"));
    fs::DirBuilder::new().mode(0o700).create(&theirs).expect("a folder");
    symlink(&theirs, &link).expect("a link");
    let error = ServerFolder::create_in(&link).expect_err("it is a link");
    assert!(matches!(error, FolderError::System { .. }), "{error}");
    assert_eq!(names(&theirs), Vec::<String>::new());
}

#[test]
fn a_second_server_of_the_same_number_is_refused_and_harms_nothing() -> Result<(), FolderError> {
    let place = place();
    let first = ServerFolder::create_in(place.path())?;
    fs::write(first.path().join("worker.sock"), "").expect("a file");
    let error = ServerFolder::create_in(place.path()).expect_err("the number is taken");
    assert!(matches!(error, FolderError::Taken(_)), "{error}");
    assert!(first.path().join("worker.sock").exists());
    Ok(())
}
