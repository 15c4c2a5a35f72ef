//! The handlers of a configuration, with the programs that it names.

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::config::{Exec, HandlerConfig};
use crate::daemon::SetupError;
use crate::daemon::fs::permissions;
use crate::escape;
use crate::handler::{self, HandlerTable, Inventory, NO_HANDLERS};

/// Returns the handlers that this crate provides, and the [`Inventory`] of the built-in ones.
///
/// Fails if a program does not exist or is not executable, if users other than root and this
/// process's user can change it, or if the kernel cannot watch programs (before Linux 5.3).
pub fn handlers(config: &HandlerConfig) -> Result<(HandlerTable, Inventory), SetupError> {
    let mut config = config.clone();
    resolve_programs(&mut config, false)?;
    Ok(create_handlers(&config))
}

/// Returns the handlers of a configuration whose programs [`resolve_programs`] has checked.
pub(super) fn create_handlers(config: &HandlerConfig) -> (HandlerTable, Inventory) {
    let (mut table, mut inventory) = <(HandlerTable, Inventory)>::default();
    handler::change_handlers(&mut table, &mut inventory, &NO_HANDLERS, config);
    (table, inventory)
}

/// Replaces the path of each program by one without symbolic links. Fails as [`handlers`] does. If
/// `is_strict`, a sticky directory such as /tmp must not be above a program either.
pub(crate) fn resolve_programs(
    config: &mut HandlerConfig,
    is_strict: bool,
) -> Result<(), SetupError> {
    for Exec { program, .. } in &mut config.exec {
        pidfd_open(getpid(), PidfdFlags::empty()).map_err(|error| {
            SetupError::Unusable(format!(
                "cannot watch programs of --exec: {error}; Linux 5.3 or later is required"
            ))
        })?;
        *program =
            permissions::resolve_trusted_program(program, !is_strict).map_err(|problem| {
                let (program, remedy) = (escape::path(program), problem.remedy());
                SetupError::Unusable(format!(
                    "cannot use the program {program}: {problem}; {remedy}"
                ))
            })?;
    }
    Ok(())
}
