//! Who may run what, and how strongly it must be held: facts in, a `Grant`, a
//! `PendingGrant` that a person must approve, or a `Refusal` out.
//!
//! The one place that can say yes. It reads no file, clock or environment; equal facts give equal
//! answers. Not here: finding files (the program), arming what was decided (the backends).

pub mod approval;
pub mod carve_outs;
pub mod compare;
pub mod document;
pub mod enforcement;
pub mod explain;
mod globs;
pub mod grant;
pub mod hosts;
pub mod profile;
pub mod tool_rules;

pub use approval::{Approval, ApprovalReason, PendingGrant};
pub use carve_outs::{CarveOut, CarveOuts};
pub use enforcement::{Dimension, Enforcement, Strength};
pub use grant::{CommandPlan, Decision, Grant, Program, Refusal, authorize};
pub use profile::{BackendKind, Profile, ProfileError, Profiles};
pub use tool_rules::{RunTimeRule, RunTimeRules, ToolPattern, ToolRule, ToolRules};
