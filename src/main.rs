//! Start here: arguments -> config -> daemon -> exit code.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use log::LevelFilter;
use plugind::cli::{
    BAD_CONFIG, Command, CommandLine, WRONG_USAGE, ask, check_config, doctor, logging, probe,
    settings_needing_restart, simulate, with,
};
use plugind::config::DaemonConfig;
use plugind::daemon::{Daemon, Logger};

/// Runs the command. The commands with large variables are not inlined, so that the daemon does not
/// have these on its stack.
fn main() -> ExitCode {
    match Command::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(command_line)) => run(&command_line),
        Ok(Command::CheckConfig(command_line)) => match check_config::run(&command_line) {
            Ok(text) => print(&text),
            Err(problems) => print_problems(&problems),
        },
        Ok(Command::Probe(options, format)) => {
            exit_code_or_print_error(probe::run(&options, format))
        }
        Ok(Command::Doctor(examined, format)) => {
            exit_code_or_print_error(doctor::run(&examined, format))
        }
        Ok(Command::Simulate(profile)) => exit_code_or_print_error(simulate::run(&profile)),
        Ok(Command::With(options)) => match with::run(&options) {
            Ok(status) => ExitCode::from(status),
            Err(failure) => print_error(&failure, failure.exit_code().into()),
        },
        Ok(Command::Ask(options)) => match ask(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => print_error(&failure, failure.exit_code().into()),
        },
        Ok(Command::Print(text)) => print(&text.concat()),
        Err(usage) => print_error(&usage, ExitCode::from(WRONG_USAGE)),
    }
}

/// Runs the daemon. Once the logger is installed, only the logger writes to standard error, and it
/// never waits for the reader.
#[inline(never)]
fn run(command_line: &CommandLine) -> ExitCode {
    let options = match command_line.load() {
        Ok(options) => options,
        Err(problems) => return print_problems(&problems),
    };
    let Some(log) = logging::start_logging(options.verbosity, options.config.log_format) else {
        return print_error(
            &"cannot install the logger: one is already installed",
            ExitCode::FAILURE,
        );
    };
    let level = logging::level(options.verbosity);
    let result = serve(command_line.clone(), &options.config, level, log);
    if let Err(error) = &result {
        log.print_error(&format!("plugind: {error}"));
    }
    log.finish();
    result.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Runs the daemon until a signal ends it.
fn serve(
    command_line: CommandLine,
    config: &DaemonConfig,
    level: LevelFilter,
    log: &'static Logger,
) -> Result<(), Box<dyn Error>> {
    let load = move || {
        let options = command_line.load()?;
        Ok((options.config, logging::level(options.verbosity)))
    };
    let load = Box::new(load);
    Ok(Daemon::new(config, Some(log), level, load, settings_needing_restart)?.run()?)
}

/// Returns the exit code of a command, or prints the error and returns the code of a failure.
fn exit_code_or_print_error(result: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    result.unwrap_or_else(|error| print_error(&error, ExitCode::FAILURE))
}

/// Prints to standard output. A closed output is not a failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let why = format!("cannot write to standard output: {error}");
            print_error(&why, ExitCode::FAILURE)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints the problems of a configuration, each in one line.
fn print_problems(problems: &[String]) -> ExitCode {
    let each = problems.iter();
    each.for_each(|problem| _ = print_error(problem, ExitCode::FAILURE));
    ExitCode::from(BAD_CONFIG)
}

/// Prints an error in one line and returns `code`, even if standard error is closed.
fn print_error(error: &dyn fmt::Display, code: ExitCode) -> ExitCode {
    let _ = writeln!(io::stderr(), "plugind: {error}");
    code
}
