//! `cofferdam approvals`: what waits for a person in a running server, and the owner's decision.

use clap::{Args, Subcommand};

use super::{common::RunningServerArgs, help};

/// As written.
#[derive(Debug, Args)]
#[command(after_help = help::APPROVALS)]
pub(crate) struct ApprovalsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: ApprovalsAction,
    /// As JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Which server.
    #[command(flatten)]
    pub(crate) server: RunningServerArgs,
}

/// What to do about the calls that wait.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsAction {
    /// List the calls that wait for a person, the oldest first
    #[command(after_help = help::APPROVALS)]
    List,
    /// Show what a call would run, where and why a person is asked
    #[command(after_help = help::APPROVALS)]
    Show {
        /// The call's id, or as much of its beginning as is unique
        id: String,
    },
    /// Let a call run, once
    #[command(after_help = help::APPROVALS)]
    Allow {
        /// The call's id, or as much of its beginning as is unique
        id: String,
    },
    /// Refuse a call
    #[command(after_help = help::APPROVALS)]
    Deny {
        /// The call's id, or as much of its beginning as is unique
        id: String,
    },
}
