//! What debuggers and operators ask of a driver about a whole process: its log, core dumps,
//! checkpoints, and notifications.

pub(crate) mod checkpoint;
pub(crate) mod core_dump;
pub(crate) mod driver_log;
mod listener;
pub(crate) mod notification;
