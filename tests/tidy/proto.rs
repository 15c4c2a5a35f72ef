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

#[test]
fn the_generated_messages_are_what_the_definitions_say() {
    for (file, code) in generate() {
        let path = in_crate(GENERATED).join(&file);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &code).expect("the generated code can be written");
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == code,
            "{GENERATED}/{file} is not what {DEFINITIONS}/ says: run `make generate`"
        );
    }
}

#[test]
fn every_generated_module_has_a_definition() {
    let generated = generate();
    for path in files_in(&in_crate(GENERATED), "rs") {
        let file = path.file_name().unwrap().to_str().unwrap();
        assert!(
            file == "mod.rs" || generated.contains_key(file),
            "{GENERATED}/{file} comes from no file in {DEFINITIONS}/"
        );
    }
}

/// Generates the code of every package in `proto/`. Returns it by the name of its file.
fn generate() -> BTreeMap<String, String> {
    let folder = in_crate(DEFINITIONS);
    let definitions = protox::compile(files_in(&folder, "proto"), [&folder]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .btree_map(["."])
        .type_attribute(".v1beta1.Mount", JSON)
        .type_attribute(".v1beta1.DeviceSpec", JSON)
        .out_dir(out.path())
        .service_generator(Box::new(MethodPaths))
        .compile_fds(definitions)
        .unwrap();
    let packages = files_in(out.path(), "rs");
    packages.iter().map(|path| module(path)).collect()
}

/// Returns the file name and the code of one package: a module name cannot contain dots.
fn module(generated: &Path) -> (String, String) {
    let package = generated.file_stem().unwrap().to_str().unwrap();
    let code = fs::read_to_string(generated).unwrap();
    (format!("{}.rs", package.replace('.', "_")), code)
}

/// A generator of a module of method paths for every service. The calls themselves are written by
/// hand.
struct MethodPaths;

impl ServiceGenerator for MethodPaths {
    fn generate(&mut self, service: Service, code: &mut String) {
        let name = format!("{}.{}", service.package, service.proto_name);
        let module = snake_case(&service.proto_name);
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
    let constant = snake_case(&method.proto_name).to_uppercase();
    let path = format!("/{service}/{}", method.proto_name);
    writeln!(code, "pub const {constant}: &str = {path:?};").unwrap();
}

/// Returns `GetInfo` as `get_info`. A run of capitals stays together: `DRAPlugin` is `dra_plugin`.
fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let starts_word = |at: usize| {
        at > 0
            && chars[at].is_uppercase()
            && (chars[at - 1].is_lowercase() || chars.get(at + 1).is_some_and(|c| c.is_lowercase()))
    };
    let mut snake = String::new();
    for (at, c) in chars.iter().enumerate() {
        if starts_word(at) {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Returns the files with this extension in a folder, sorted.
fn files_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// Returns the absolute path of a path in this crate.
fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What a message has that is also shown as JSON.
const JSON: &str = "#[derive(serde::Serialize)]\n#[serde(rename_all = \"camelCase\")]";

/// The folder of the definitions.
const DEFINITIONS: &str = "proto";

/// The folder of the code that is generated from them.
const GENERATED: &str = "src/proto";

/// The environment variable that makes the test write the code before it is compared.
const WRITE: &str = "TEST_GENERATE";
