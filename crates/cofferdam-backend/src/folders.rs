//! The folders that a run may use at their own absolute paths: the workspace, and what the profile
//! grants beside it. Held by descriptor, so that what is mounted is what was opened.

use cofferdam_fs::{Workspace, WorkspaceError};
use cofferdam_policy::{Grant, profile::Access};

/// One granted folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// The folder, held.
    pub(crate) held: Workspace,
    /// What the run may do in it.
    pub(crate) access: Access,
}

/// A granted folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// It cannot be opened, or must never be writable.
    #[error("`filesystem.write` grants a folder that cannot be used")]
    Open(#[source] WorkspaceError),
    /// The code could swap the workspace's own mount point.
    #[error("`filesystem.write` grants `{0}`, which contains the workspace")]
    ContainsWorkspace(String),
}

/// Opens every granted folder; the workspace is the first.
pub(crate) fn open(grant: &Grant, workspace: &Workspace) -> Result<Vec<Folder>, FolderError> {
    let filesystem = &grant.profile().filesystem;
    let mut folders = vec![Folder { held: workspace.clone(), access: filesystem.workspace }];
    for granted in &filesystem.write {
        let held = match Workspace::open(&granted.path, &[]) {
            // As with `read`: what is not there is not granted.
            Err(WorkspaceError::Missing(_)) => continue,
            opened => opened.map_err(FolderError::Open)?,
        };
        if workspace.path().starts_with(held.path()) {
            return Err(FolderError::ContainsWorkspace(granted.path.display().to_string()));
        }
        // What lies in a folder that is granted already is visible through it, and nobody may make
        // a mount point there.
        if !folders.iter().any(|folder| held.path().starts_with(folder.held.path())) {
            folders.push(Folder { held, access: Access::Write });
        }
    }
    Ok(folders)
}
