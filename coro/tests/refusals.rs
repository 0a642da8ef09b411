//! Programs that need a process of their own are refused in one line, and layouts are those of PEs that are processes.

mod common;

use angara_coro::Program;
use common::{compile, prepare};
use std::path::Path;

fn why(path: &Path) -> String {
    let text = match Program::read(path) {
        Err(e) => e.to_string(),
        Ok(_) => prepare(path).unwrap_err().to_string(),
    };
    assert!(text.starts_with(&path.display().to_string()) && !text.contains('\n'), "{text}");
    text
}

#[test]
fn programs_that_need_processes() {
    let main = |body: &str| format!("#include <unistd.h>\n#include <stdio.h>\nint main(void) {{ {body}; return 0; }}");
    let cases: &[(&str, String, &[&str], &str)] = &[
        ("fork", main("fork()"), &[], "it calls fork, which starts or replaces a process"),
        ("threads", "#include <pthread.h>\nint main(void){return pthread_create(0,0,0,0);}".into(), &[], "pthread_create"),
        ("omp", "int main(void){int s=0;\n#pragma omp parallel for reduction(+:s)\nfor(int i=0;i<9;i++)s+=i;return s;}".into(), &["-fopenmp"], "which starts threads"),
        ("cout", "#include <iostream>\nint main(){std::cout<<1;}".into(), &["-xc++", "-fPIE"], "oshcc -fPIC"),
        ("nopie", main(""), &["-no-pie"], "not position-independent"),
        ("static", main(""), &["-static"], "not position-independent"),
        ("staticpie", main(""), &["-static-pie"], "statically linked"),
        ("missing", "void shmem_nobody_has_this(void); int main(void){shmem_nobody_has_this();}".into(), &[], "no library has its symbol shmem_nobody_has_this"),
        ("tls", "__thread char big[5000]; int main(int n,char**v){big[n]=1;return big[n+1];}".into(), &[], "at most 4096"),
        ("libtls", "extern __thread int shmem_elsewhere; int main(void){return shmem_elsewhere;}".into(), &[], "shmem_elsewhere"),
        ("library", main(""), &["-Wl,--no-as-needed", "-lanl"], "libanl.so.1"),
        ("malloc", "#include <stddef.h>\nvoid*malloc(size_t n){static char b[99];return b;} int main(void){return !malloc(3);}".into(), &["-rdynamic"], "it defines malloc"),
        ("asan", main("puts(\"x\")"), &["-fsanitize=address"], "sanitizer"),
    ];
    for (name, source, options, want) in cases {
        let text = why(&compile(&format!("refused-{name}"), source, options));
        assert!(text.contains(want), "{name}: {text}");
    }
}

#[test]
fn files_that_are_no_programs() {
    let script = compile("refused-base", "int main(void){return 0;}", &[]).with_extension("sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(why(&script).contains("script"));
    std::fs::write(&script, "text").unwrap();
    assert!(why(&script).contains("not an ELF file"));
    assert!(why(Path::new("/nowhere/prog")).contains("No such file"));
}

#[test]
fn layouts_are_those_of_processes() {
    let source = "#include <stdio.h>\nint big[10000]; int some = 3; const int constant[2000] = {1}; int main(void){printf(\"%d\", constant[some]);return big[some];}";
    let program = Program::read(&compile("layout", source, &[])).unwrap();
    let (layout, segments) = (program.layout(), program.segments());
    assert!(segments[0].writable && segments[1..].iter().all(|s| !s.writable));
    assert_eq!((segments[0].offset_in_image, segments[0].len), (layout.variables_at, layout.variables_bytes));
    assert_eq!(layout.variables_at + layout.variables_bytes, layout.image_bytes);
    assert_eq!(layout.slice_bytes - layout.variables_at, segments.iter().map(|s| s.len).sum::<usize>());
    assert!(segments[0].len >= 40_000 && segments.iter().any(|s| !s.writable && s.len >= 8192), "{segments:?}");
    assert!(program.needs("libc.so") && !program.needs("libsma") && program.imports("printf"));
}
