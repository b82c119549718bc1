//! Claims about what an admin is told of profiles and configuration, made to the built program.
//!
//! Nothing here runs code in a sandbox; everything passes as root and as an ordinary user.

mod check;
mod config;
mod diff;
mod docs;
mod explain;
mod list;
mod schema;
mod shipped;
mod show;
mod support;
