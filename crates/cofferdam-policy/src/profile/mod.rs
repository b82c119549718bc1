//! Sandbox profiles: as written, and as enforced.

mod resolved;

pub use resolved::{
    Access, ApprovalRule, ApprovalWhen, BackendKind, Confinement, Container, Environment,
    Filesystem, Host, Limits, Network, NetworkMode, PathGrant, Pool, Profile, Python, Uv,
};
