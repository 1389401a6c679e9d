//! A program with a function for each calling convention and attribute of `matrix/attributes.toml`.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{read, yes};

/// A row of `matrix/attributes.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    pub name: String,
    attribute: String,
    #[serde(default)]
    parameters: String,
    #[serde(default)]
    arguments: String,
    first: Option<[String; 2]>,
    #[serde(default)]
    definition: bool,
    #[serde(default = "yes")]
    result: bool,
    #[serde(default)]
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    attribute: Vec<Attribute>,
}

/// All attributes of the table.
pub fn attributes() -> Vec<Attribute> {
    read::<Attributes>("attributes.toml").attribute
}

/// Header, callers, and functions.
pub(super) fn program(attributes: &[Attribute]) -> [String; 3] {
    let mut header = String::from(
        "#include \"show.h\"\ntypedef void action(long);\ntypedef float four __attribute__((vector_size(16)));\n\
         struct large { long words[4]; };\nextern volatile long sum;\nextern void *error_result;\n\
         extern long indirect_result;\n",
    );
    let mut main = String::from(
        "#include \"attributes.h\"\nstatic void called(long n) { sum += n; SHOW(\"called\"); KEEP; }\n",
    );
    let mut part = String::from(
        "#include \"attributes.h\"\nvolatile long sum;\nvoid *error_result;\nlong indirect_result;\n",
    );
    let mut calls = String::new();
    for Attribute { name, attribute, parameters, arguments, first, definition, result, body } in attributes {
        let appended = |list: &str| if list.is_empty() { String::new() } else { format!(", {list}") };
        let (parameters, arguments) = (appended(parameters), appended(arguments));
        let prepended = |i: usize| first.as_ref().map_or(String::new(), |first| format!("{}, ", first[i]));
        let (parameter, argument) = (prepended(0), prepended(1));
        let add = if *result { "sum +=" } else { "(void)" };
        let head = format!("long f_{name}({parameter}long n, action *back{parameters})");
        // A function that must be inlined has to be defined where it is called.
        let inlined = attribute.contains("always_inline");
        let linkage = if inlined { "static inline " } else { "" };
        let declared = if *definition { "" } else { attribute };
        let _ = writeln!(header, "{linkage}{declared} {head};");
        let to = if inlined { &mut header } else { &mut part };
        let _ = writeln!(
            to,
            "{linkage}{attribute} {head} {{\n  {body}\n  sum += n;\n  SHOW(\"{name}\"); KEEP;\n  \
             if (back) {{ back(n); KEEP; }}\n  \
             if (n > 0) {{ {add} f_{name}({argument}n - 1, back{arguments}); KEEP; }}\n  return sum % 1000;\n}}",
        );
        let _ = writeln!(
            main,
            "static __typeof__(f_{name}) *volatile p_{name} = f_{name};\nNOINLINE static void call_{name}(void) {{\n  \
             {add} f_{name}({argument}2, called{arguments}); KEEP;\n  \
             {add} p_{name}({argument}1, called{arguments}); KEEP;\n}}",
        );
        let _ = writeln!(
            calls,
            "  call_{name}(); KEEP;\n  printf(\"{name} %ld\\n\", sum); fflush(stdout); KEEP;"
        );
    }
    let _ = writeln!(main, "int main(void) {{\n{calls}  return 0;\n}}");
    [header, main, part]
}
