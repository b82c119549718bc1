//! What a path that an agent named can and cannot reach.

use std::{
    fs,
    io::Read,
    os::unix::{fs::symlink, net::UnixListener},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::fs::{RenameFlags, mknodat, renameat_with};

use super::*;

/// A folder that holds the workspace `work`, its evil neighbour `work-evil`, and `outside`.
fn place() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["work/sub/deep", "work-evil", "outside"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("work/file.txt"), "inside").unwrap();
    fs::write(folder.path().join("outside/secret"), "secret").unwrap();
    let workspace = Workspace::open(&folder.path().join("work"), &[]).unwrap();
    (folder, workspace)
}

fn directory(workspace: &Workspace, path: impl AsRef<Path>) -> Result<PathBuf, PathError> {
    workspace.resolve_directory(path.as_ref())
}

fn content(workspace: &Workspace, path: impl AsRef<Path>) -> Result<String, PathError> {
    let (mut file, _) = workspace.open_regular(path.as_ref())?;
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn relative_and_absolute_names_of_the_same_directory_agree() {
    let (_folder, workspace) = place();
    let root = workspace.path();
    for path in [
        PathBuf::from("sub"),
        "./sub/".into(),
        " sub ".into(),
        "sub/deep/..".into(),
        "sub/../sub".into(),
        root.join("sub"),
        root.join("sub//deep/../"),
    ] {
        assert_eq!(directory(&workspace, &path).unwrap(), root.join("sub"), "{path:?}");
    }
    for path in [PathBuf::from("."), root.to_owned(), root.join("sub/..")] {
        assert_eq!(directory(&workspace, &path).unwrap(), root, "{path:?}");
    }
}

#[test]
fn neighbours_with_the_same_beginning_are_outside() {
    let (folder, workspace) = place();
    for path in [
        folder.path().join("work-evil"),
        folder.path().join("work/../work-evil"),
        folder.path().to_owned(),
        "/".into(),
        "/etc".into(),
        "..".into(),
        "../work-evil".into(),
        "sub/../../outside".into(),
        "../../../../../../etc".into(),
    ] {
        let error = directory(&workspace, &path).unwrap_err();
        assert!(matches!(error, PathError::Outside { .. }), "{path:?}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(workspace.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn what_is_not_there_and_what_is_no_directory_are_told_apart() {
    let (_folder, workspace) = place();
    let root = workspace.path().display();
    assert_eq!(
        directory(&workspace, "absent").unwrap_err().to_string(),
        format!("No such directory: {root}/absent")
    );
    assert_eq!(
        directory(&workspace, "file.txt").unwrap_err().to_string(),
        format!("Not a directory: {root}/file.txt")
    );
    assert_eq!(
        content(&workspace, "absent").unwrap_err().to_string(),
        format!("File not found: {root}/absent")
    );
    assert!(matches!(
        content(&workspace, "file.txt/below").unwrap_err(),
        PathError::FileNotFound(_)
    ));
}

#[test]
fn empty_tilde_and_nul_are_refused() {
    let (_folder, workspace) = place();
    assert!(matches!(directory(&workspace, " \t"), Err(PathError::Empty)));
    assert!(matches!(directory(&workspace, "a\0b"), Err(PathError::Nul(_))));
    let tilde = directory(&workspace, "~/x").unwrap_err();
    assert!(matches!(tilde, PathError::Tilde(_)));
    assert!(tilde.hint().is_some());
}

#[test]
fn links_that_stay_inside_are_followed() {
    let (_folder, workspace) = place();
    let root = workspace.path();
    symlink("sub/deep", root.join("relative")).unwrap();
    symlink(root.join("sub"), root.join("absolute")).unwrap();
    symlink("../absolute/../file.txt", root.join("sub/chain")).unwrap();
    symlink(root, root.join("sub/root")).unwrap();
    assert_eq!(directory(&workspace, "relative").unwrap(), root.join("sub/deep"));
    assert_eq!(directory(&workspace, "absolute/deep").unwrap(), root.join("sub/deep"));
    assert_eq!(directory(&workspace, "sub/root/sub/root/absolute").unwrap(), root.join("sub"));
    assert_eq!(content(&workspace, "sub/chain").unwrap(), "inside");
}

#[test]
fn links_that_leave_are_refused_by_name() {
    let (folder, workspace) = place();
    let root = workspace.path();
    symlink("/etc/passwd", root.join("passwd")).unwrap();
    symlink("../outside", root.join("up")).unwrap();
    symlink("../../outside", root.join("sub/up")).unwrap();
    symlink(folder.path().join("work-evil"), root.join("evil")).unwrap();
    symlink("up", root.join("chained")).unwrap();
    for (path, link) in [
        ("passwd", "passwd"),
        ("up/secret", "up"),
        ("sub/up/secret", "sub/up"),
        ("evil/x", "evil"),
        ("chained/secret", "up"),
    ] {
        let error = content(&workspace, path).unwrap_err();
        assert!(error.leaves_workspace());
        match error {
            PathError::LinkLeaves { link: named, .. } => assert_eq!(named, root.join(link)),
            other => panic!("{path}: {other:?}"),
        }
    }
    // The control: by path, the link does lead out.
    assert_eq!(fs::read_to_string(root.join("up/secret")).unwrap(), "secret");
}

#[test]
fn a_loop_of_links_ends() {
    let (_folder, workspace) = place();
    let root = workspace.path();
    symlink("b", root.join("a")).unwrap();
    symlink("a", root.join("b")).unwrap();
    symlink(root.join("self"), root.join("self")).unwrap();
    assert!(matches!(content(&workspace, "a").unwrap_err(), PathError::System { .. }));
    assert!(matches!(content(&workspace, "self").unwrap_err(), PathError::System { .. }));
}

#[test]
fn files_that_are_not_regular_are_refused_by_type() {
    let (_folder, workspace) = place();
    let root = workspace.path();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    // A socket's path is limited to 108 bytes, the folder's may be longer: bind by descriptor.
    let bound = descriptor_path(&workspace.directory()).join("socket");
    let _listener = UnixListener::bind(bound).unwrap();
    for (path, expected) in [("fifo", "FIFO"), ("socket", "socket"), ("sub", "directory")] {
        match content(&workspace, path).unwrap_err() {
            PathError::NotRegular { kind, .. } => assert_eq!(kind, expected),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_name_that_is_no_text_is_found_by_its_bytes() {
    let (_folder, workspace) = place();
    let name = OsString::from_vec(b"caf\xe9".to_vec());
    fs::create_dir(workspace.path().join(&name)).unwrap();
    assert_eq!(directory(&workspace, &name).unwrap(), workspace.path().join(&name));
}

#[test]
fn the_name_under_which_the_workspace_was_given_works_too() {
    let (folder, _workspace) = place();
    let link = folder.path().join("link");
    symlink("work", &link).unwrap();
    let workspace = Workspace::open(&link, &[]).unwrap();
    assert_eq!(directory(&workspace, link.join("sub")).unwrap(), folder.path().join("work/sub"));
    // Also after the link points elsewhere: the directory is held, not its name.
    fs::remove_file(&link).unwrap();
    symlink("outside", &link).unwrap();
    assert_eq!(directory(&workspace, link.join("sub")).unwrap(), folder.path().join("work/sub"));
    assert!(matches!(
        content(&workspace, link.join("secret")).unwrap_err(),
        PathError::FileNotFound(_)
    ));
}

#[test]
fn a_workspace_that_was_moved_gives_no_names() {
    let (folder, workspace) = place();
    fs::rename(folder.path().join("work"), folder.path().join("moved")).unwrap();
    assert!(directory(&workspace, "sub").is_err());
}

#[test]
fn a_directory_swapped_for_a_link_in_a_loop_never_leads_out() {
    let (folder, workspace) = place();
    let root = workspace.path().to_owned();
    fs::write(root.join("sub/secret"), "inside").unwrap();
    symlink(folder.path().join("outside"), root.join("trap")).unwrap();
    let done = AtomicBool::new(false);
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let exchange = RenameFlags::EXCHANGE;
                renameat_with(CWD, root.join("sub"), CWD, root.join("trap"), exchange).unwrap();
            }
        });
        for _ in 0..20_000 {
            match content(&workspace, "sub/secret") {
                Ok(text) => {
                    assert_eq!(text, "inside");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
            if let Ok(name) = directory(&workspace, "sub") {
                assert!(name.starts_with(&root), "{name:?}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    // The control: both states were met, so the swap was really going on.
    assert!(inside > 0 && refused > 0, "inside {inside}, refused {refused}");
}
