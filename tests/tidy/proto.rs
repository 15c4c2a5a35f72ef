//! The messages in `src/proto/` match `proto/*.proto`.
//!
//! The generated code is checked in, so that building needs neither `protoc` nor a build script.
//! This test generates it again with `protox` and `prost-build` and compares. If
//! `TEST_GENERATE` is set, as `make generate` does, the test writes the generated code first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use prost_build::{Method, Service, ServiceGenerator};

use super::manual::{WRITE, files_in, in_crate};

#[test]
fn the_generated_messages_are_what_the_definitions_say() {
    let generated = generate();
    for (path, code) in &generated {
        if std::env::var_os(WRITE).is_some() {
            fs::write(path, code).expect("the generated code can be written");
        }
        let checked_in = fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == *code,
            "{path:?} is not what {DEFINITIONS}/ says: run `make generate`"
        );
    }
    let checked_in = files_in(GENERATED, "rs");
    let modules = checked_in.iter().filter(|path| !path.ends_with("mod.rs"));
    assert!(
        modules.eq(generated.keys()),
        "{checked_in:?} without a definition"
    );
}

/// Generates the code of every package in `proto/`. Returns it by the path of its module.
fn generate() -> BTreeMap<PathBuf, String> {
    let definitions = files_in(DEFINITIONS, "proto");
    let definitions = protox::compile(definitions, [in_crate(DEFINITIONS)]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .btree_map(["."])
        .type_attribute(".v1beta1.ContainerAllocateResponse", JSON)
        .type_attribute(".v1beta1.Mount", JSON)
        .type_attribute(".v1beta1.DeviceSpec", JSON)
        .type_attribute(".v1beta1.CDIDevice", JSON_OF_FIELD)
        .out_dir(out.path())
        .service_generator(Box::new(MethodPaths))
        .compile_fds(definitions)
        .unwrap();
    let packages = files_in(out.path(), "rs");
    packages.iter().map(|path| module(path)).collect()
}

/// Returns the path and the code of one package: a module name cannot contain dots.
fn module(generated: &Path) -> (PathBuf, String) {
    let package = generated.file_stem().unwrap().to_str().unwrap();
    let name = format!("{}.rs", package.replace('.', "_"));
    (
        in_crate(GENERATED).join(name),
        fs::read_to_string(generated).unwrap(),
    )
}

/// A generator of a module of method paths for every service. The calls themselves are written by
/// hand.
struct MethodPaths;

impl ServiceGenerator for MethodPaths {
    fn generate(&mut self, service: Service, code: &mut String) {
        let name = format!("{}.{}", service.package, service.proto_name);
        let module = snake_case(&service.name);
        writeln!(code, "/// The paths of the methods of `{name}`.").unwrap();
        writeln!(code, "pub mod {module} {{").unwrap();
        for method in &service.methods {
            write_path(&name, method, code);
        }
        writeln!(code, "}}").unwrap();
    }
}

/// Writes one method's path as a constant, with the comment of the definition as its doc.
fn write_path(service: &str, method: &Method, code: &mut String) {
    for line in &method.comments.leading {
        writeln!(code, "///{line}").unwrap();
    }
    let constant = method.name.to_uppercase();
    let path = format!("/{service}/{}", method.proto_name);
    writeln!(code, "pub const {constant}: &str = {path:?};").unwrap();
}

/// Returns `DraPlugin` as `dra_plugin`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// What a message has that is also shown as JSON.
const JSON: &str = "#[derive(serde::Serialize)]\n#[serde(rename_all = \"camelCase\")]";

/// What a message has that is shown as its only field.
const JSON_OF_FIELD: &str = "#[derive(serde::Serialize)]\n#[serde(transparent)]";

/// The folder of the definitions.
const DEFINITIONS: &str = "proto";

/// The folder of the code that is generated from them.
const GENERATED: &str = "src/proto";
