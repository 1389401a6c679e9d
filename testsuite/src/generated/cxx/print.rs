//! From a program to its text in C++.
use std::fmt::Write as _;

use super::syntax::{Action, Callee, Function, Handler, Kind, Statement, Tree};
use super::{PLAIN, PLAIN_FILE, THROWN};

#[derive(Default)]
pub(super) struct Writer {
    text: String,
    lines: u32,
    indent: usize,
    table: usize,
    virtuals: usize,
}

impl Writer {
    /// Prints the files of a program, and records the lines of statements in the tree.
    pub(super) fn write(tree: &mut Tree) -> Vec<(String, String)> {
        let (table, virtuals) = (tree.table.len(), tree.virtuals.len());
        let mut files = Vec::new();
        for file in 0..=tree.units {
            let mut writer = Self { table, virtuals, ..Self::default() };
            if file == 0 {
                writer.header(tree);
            } else {
                writer.line("#include \"common.h\"");
            }
            for (f, function) in tree.functions.iter().enumerate() {
                if function.is_static && function.file == file {
                    writer.line(&format!("{};", signature(f, function)));
                }
            }
            for (f, function) in tree.functions.iter_mut().enumerate() {
                if function.file == file {
                    writer.function(f, function);
                }
            }
            if file == 1 {
                writer.definitions(tree);
            }
            files.push((tree.file_name(file), writer.text));
        }
        files.push((PLAIN_FILE.to_owned(), PLAIN.to_owned()));
        files
    }

    fn line(&mut self, text: &str) -> u32 {
        let _ = writeln!(self.text, "{:1$}{text}", "", 2 * self.indent);
        self.lines += 1;
        self.lines
    }

    fn open(&mut self, text: &str) -> u32 {
        let line = self.line(text);
        self.indent += 1;
        line
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(text);
    }

    fn header(&mut self, tree: &Tree) {
        let features = tree.features;
        self.line("#pragma once");
        self.line("#define START START_VALUE");
        self.line("#include \"show.h\"");
        self.line("#include <cstdlib>");
        for (wanted, header) in
            [(features.functions, "functional"), (features.sort, "algorithm"), (features.threads, "thread")]
        {
            if wanted {
                self.line(&format!("#include <{header}>"));
            }
        }
        self.line(
            "// Which thread this is: made of its creator's tag, and which of the creator's threads it is.",
        );
        self.line("extern __thread unsigned long long tag, children;");
        self.line("static inline unsigned long long next_tag() { return tag * 1000003 + ++children; }");
        self.line(
            "#define S(id) do { char name_[64]; snprintf(name_, sizeof name_, \"%d:%llu\", id, tag); SHOW(name_); } while (0)",
        );
        self.line("struct E0 { int value; E0(int v) : value(v) {} };");
        self.line("struct E1 : E0 { using E0::E0; };");
        self.line("struct E2 { int value; E2(int v) : value(v) {} };");
        self.line("struct V { virtual unsigned run(int n, int s) = 0; };");
        self.line("struct W { virtual unsigned walk(int n, int s) = 0; };");
        for class in 0..tree.virtuals.len() {
            self.line(&format!(
                "struct V{class} : V, W {{ unsigned run(int n, int s) override; unsigned walk(int n, int s) override; }};"
            ));
        }
        for class in 0..tree.objects.len() {
            self.line(&format!("struct O{class} {{ int n; O{class}(int v); ~O{class}(); }};"));
        }
        self.line("extern unsigned (*table[])(int, int);");
        self.line("extern \"C\" unsigned through(unsigned (*f)(int, int), int n, int s);");
        self.line(
            "extern \"C\" unsigned caught(unsigned (*f)(int, int), unsigned (*g)(int, int), int n, int s);",
        );
        self.line("extern V *objects[];");
        self.line("extern W *walkers[];");
        for (f, function) in tree.functions.iter().enumerate() {
            if matches!(function.kind, Kind::Free | Kind::Deep { .. } | Kind::Compare) && !function.is_static
            {
                self.line(&format!("{};", signature(f, function)));
            }
        }
    }

    fn definitions(&mut self, tree: &Tree) {
        self.line("__thread unsigned long long tag = 1, children;");
        let list = |names: Vec<String>| names.join(", ");
        self.line(&format!(
            "unsigned (*table[])(int, int) = {{{}}};",
            list(tree.table.iter().map(|f| format!("f{f}")).collect())
        ));
        for class in 0..self.virtuals {
            self.line(&format!("static V{class} v{class};"));
        }
        // A null pointer, so that the array is not empty without classes.
        let objects: String = (0..self.virtuals).map(|class| format!("&v{class}, ")).collect();
        self.line(&format!("V *objects[] = {{{objects}nullptr}};"));
        self.line(&format!("W *walkers[] = {{{objects}nullptr}};"));
    }

    fn function(&mut self, f: usize, function: &mut Function) {
        let Function { kind, body, line, .. } = function;
        let head = signature_of(f, *kind, function.file, function.is_static, function.noinline, true);
        self.open(&format!("{head} {{"));
        let (early, end) = match kind {
            Kind::Free | Kind::Deep { .. } | Kind::Run(_) | Kind::Walk(_) => ("return s;", "return r;"),
            Kind::Compare => {
                self.line("int n = *(const int *)x;");
                ("return 0;", "return 0;")
            }
            Kind::Constructor(_) | Kind::Destructor(_) => ("return;", ""),
            Kind::Start => {
                self.line("int n = 2;");
                ("return 0;", "return r;")
            }
            Kind::Main => {
                self.line("volatile int start = START;");
                self.line("int n = start;");
                ("return 1;", "printf(\"%u\\n\", r);")
            }
        };
        self.line(&format!("if (n <= 0) {early}"));
        self.line("unsigned r = n;");
        if let Kind::Deep { next } = kind {
            self.open("if (depth <= 0) {");
            self.block(body);
            self.line("return r + s;");
            self.close("}");
            *line = self.line(&format!("r += f{next}(n, s + 1, depth - 1); KEEP;"));
        } else {
            self.block(body);
        }
        if matches!(kind, Kind::Free | Kind::Run(_) | Kind::Walk(_)) {
            self.line("r ^= s;");
        }
        if !end.is_empty() {
            self.line(end);
        }
        self.close("}");
        if *kind == Kind::Start {
            *line = self.line(&format!("static unsigned init{f} = start{f}();"));
        }
    }

    fn block(&mut self, block: &mut [Statement]) {
        for statement in block {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &mut Statement) {
        let Statement { id, line, action } = statement;
        match action {
            Action::Show => *line = self.line(&format!("S({id});")),
            Action::Compute => *line = self.line("r = r * 31 + n; KEEP;"),
            Action::Call(callee, argument) => {
                let text = match callee {
                    Callee::Function(f) => format!("r += f{f}({argument}, {id}); KEEP;"),
                    Callee::Deep(f, depth) => format!("r += f{f}({argument}, {id}, {depth}); KEEP;"),
                    Callee::Pointer(f) => format!(
                        "{{ unsigned (*volatile p{id})(int, int) = f{f}; r += p{id}({argument}, {id}); KEEP; }}"
                    ),
                    Callee::Through(f) => format!("r += through(f{f}, {argument}, {id}); KEEP;"),
                    Callee::Caught(f, g) => format!("r += caught(f{f}, f{g}, {argument}, {id}); KEEP;"),
                    Callee::Std(f) => format!(
                        "{{ std::function<unsigned(int, int)> g{id} = f{f}; r += g{id}({argument}, {id}); KEEP; }}"
                    ),
                    Callee::Table(add) => {
                        format!("r += table[(n + {add}) % {}]({argument}, {id}); KEEP;", self.table)
                    }
                    Callee::Run(add) => {
                        format!("r += objects[(n + {add}) % {}]->run({argument}, {id}); KEEP;", self.virtuals)
                    }
                    Callee::Walk(add) => format!(
                        "r += walkers[(n + {add}) % {}]->walk({argument}, {id}); KEEP;",
                        self.virtuals
                    ),
                };
                *line = self.line(&text);
            }
            Action::Tail(f, argument) => *line = self.line(&format!("return f{f}({argument}, {id});")),
            Action::If(condition, then, otherwise) => {
                *line = self.open(&format!("if ({condition}) {{"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.close("} else {");
                    self.indent += 1;
                    self.block(otherwise);
                }
                self.close("}");
            }
            Action::Loop(count, body) => {
                *line = self.open(&format!("for (int i{id} = 0; i{id} < {count}; i{id}++) {{"));
                self.block(body);
                self.close("}");
            }
            Action::Try(body, handlers) => {
                *line = self.open("try {");
                self.block(body);
                for Handler { thrown, body } in handlers {
                    self.indent -= 1;
                    match thrown {
                        Some(3) => {
                            self.open("} catch (int e) {");
                            self.line("r += e;");
                        }
                        Some(thrown) => {
                            self.open(&format!("}} catch ({} &e) {{", THROWN[*thrown]));
                            self.line("r += e.value;");
                        }
                        None => {
                            self.open("} catch (...) {");
                        }
                    }
                    self.block(body);
                }
                self.close("}");
            }
            Action::Throw(condition, thrown) => {
                *line = self.line(&format!("if ({condition}) throw {}(n);", THROWN[*thrown]));
            }
            Action::Rethrow(condition) => *line = self.line(&format!("if ({condition}) throw;")),
            Action::Object(class, argument) => {
                *line = self.line(&format!("O{class} o{id}({argument}); KEEP;"))
            }
            Action::Lambda { body, argument, noinline, function } => {
                let noinline = if *noinline { " NOINLINE" } else { "" };
                self.open(&format!("auto l{id} = [&](int n){noinline} -> unsigned {{"));
                self.line("if (n <= 0) return 1;");
                self.line("unsigned r = n;");
                self.block(body);
                self.line("return r;");
                self.close("};");
                *line = self.line(&if *function {
                    format!("{{ std::function<unsigned(int)> g{id} = l{id}; r += g{id}({argument}); KEEP; }}")
                } else {
                    format!("r += l{id}({argument}); KEEP;")
                });
            }
            Action::Qsort(f, argument) => {
                *line = self.line(&format!(
                    "{{ int a{id}[2] = {{{argument}, {argument}}}; qsort(a{id}, 2, sizeof(int), compare{f}); KEEP; }}"
                ));
            }
            Action::Sort(body, argument) => {
                self.line(&format!("int a{id}[2] = {{2, 1}}, m{id} = {argument}; bool once{id} = true;"));
                self.open(&format!("auto l{id} = [&](int, int) -> bool {{"));
                self.line(&format!("int n = m{id};"));
                self.line(&format!("if (n <= 0 || !once{id}) return false;"));
                self.line(&format!("once{id} = false;"));
                self.line("unsigned r = n;");
                self.block(body);
                self.line("return false;");
                self.close("};");
                *line = self.line(&format!("std::sort(a{id}, a{id} + 2, l{id}); KEEP;"));
            }
            Action::Threads(workers) => {
                for (id, body) in workers.iter_mut() {
                    self.open(&format!("std::thread t{id}([n = n, next = next_tag()] {{"));
                    self.line("tag = next;");
                    self.line("unsigned r = n;");
                    self.block(body);
                    self.close("});");
                }
                let joins: String = workers.iter().map(|(id, _)| format!("t{id}.join(); ")).collect();
                *line = self.line(joins.trim_end());
            }
        }
    }
}

fn signature(f: usize, function: &Function) -> String {
    signature_of(f, function.kind, function.file, function.is_static, function.noinline, false)
}

fn signature_of(
    f: usize,
    kind: Kind,
    file: usize,
    is_static: bool,
    noinline: bool,
    definition: bool,
) -> String {
    let member = matches!(kind, Kind::Run(_) | Kind::Walk(_) | Kind::Constructor(_) | Kind::Destructor(_));
    let mut text = String::new();
    if is_static {
        text += "static ";
    }
    if file == 0 {
        text += "inline ";
    }
    if noinline && kind != Kind::Main {
        text += "NOINLINE ";
    }
    debug_assert!(definition || !member, "members are declared in their classes");
    text + &match kind {
        Kind::Free => format!("unsigned f{f}(int n, int s)"),
        Kind::Deep { .. } => format!("unsigned f{f}(int n, int s, int depth)"),
        Kind::Run(class) => format!("unsigned V{class}::run(int n, int s)"),
        Kind::Walk(class) => format!("unsigned V{class}::walk(int n, int s)"),
        Kind::Constructor(class) => format!("O{class}::O{class}(int v) : n(v)"),
        Kind::Destructor(class) => format!("O{class}::~O{class}()"),
        Kind::Compare => format!("int compare{f}(const void *x, const void *)"),
        Kind::Start => format!("unsigned start{f}()"),
        Kind::Main => "int main()".to_owned(),
    }
}
