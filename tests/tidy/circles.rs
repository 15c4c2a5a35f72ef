//! The modules of a folder import each other in one direction.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::{assert_none, identifier, is_identifier, named_behind};

/// The imports of each module.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_modules_of_a_folder_do_not_import_each_other_in_circles() {
    let files = Source::all_shipped();
    let folders: BTreeSet<&str> = files.iter().map(Source::layer).collect();
    let mut found = Vec::new();
    for folder in folders {
        let circle = in_circles(imports(folder, &files));
        if !circle.is_empty() {
            found.push(format!("{folder}: {}", circle.join(", ")));
        }
    }
    assert_none("modules import each other in a circle", &found);
}

/// Returns which of each other the modules directly below a folder import. The folder's own module
/// is above them, and is left out.
fn imports(folder: &str, files: &[Source]) -> Imports {
    let prefix = format!("src/{folder}/");
    let within = || files.iter().filter(|file| file.path.starts_with(&prefix));
    let module = |file: &Source| identifier(&file.path[prefix.len()..]);
    let modules: BTreeSet<String> = within().map(module).filter(|name| name != "mod").collect();
    let mut exported = BTreeMap::new();
    if let Some(top) = within().find(|file| module(file) == "mod") {
        exported = exports(&top.shipped(), &modules);
    }
    let mut imports = Imports::new();
    for file in within().filter(|file| module(file) != "mod") {
        let own = module(file);
        let names = names_in(file, folder);
        let named = names.iter().filter_map(|name| match modules.get(name) {
            Some(module) => Some(module),
            None => exported.get(name),
        });
        let others = named.filter(|name| **name != own).cloned();
        imports.entry(own.clone()).or_default().extend(others);
    }
    imports
}

/// Returns the names that a folder re-exports, each with its module.
fn exports(code: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for item in code.split("use ").skip(1) {
        let path = item.split(';').next().unwrap_or_default();
        let path = path.trim_start_matches("self::");
        if let Some(module) = modules.get(&identifier(path)) {
            for name in path.split(|c| !is_identifier(c)).skip(1) {
                exported.insert(name.to_owned(), module.clone());
            }
        }
    }
    exported
}

/// Returns the names directly below a folder that one of its files mentions.
fn names_in(file: &Source, folder: &str) -> Vec<String> {
    let code = file.shipped();
    let up = "super::".repeat(file.depth() - 1);
    let named = named_behind(&code, &[&up, &format!("crate::{folder}::")]);
    named.into_iter().map(|(_, name)| name).collect()
}

/// Returns the modules that are left once those that import none of them, or that none of them
/// imports, are taken away, again and again: circles, and what is between two of them.
fn in_circles(mut imports: Imports) -> Vec<String> {
    loop {
        let names: BTreeSet<String> = imports.keys().cloned().collect();
        let imported: BTreeSet<String> = imports.values().flatten().cloned().collect();
        let is_between = |name: &String| imported.contains(name);
        imports.retain(|name, others| is_between(name) && !others.is_disjoint(&names));
        if imports.len() == names.len() {
            return names.into_iter().collect();
        }
    }
}
