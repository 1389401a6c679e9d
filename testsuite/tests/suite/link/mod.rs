//! Link mode, and what links in general do with objects, archives and debug information.

mod adapted;
mod build_steps;
mod code_cache;
mod kept_links;
mod linker_inputs;
mod local_functions;
mod mixtures;
mod objects;
mod passed_checks;
mod pic_code;
mod reachability;
mod replaceable;
mod replaced_names;
mod split_dwarf;
mod tail_calls;
mod thin_lto;
mod thin_lto_cache;
mod uninstrumented_pointers;
