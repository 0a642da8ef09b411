;;; Angara for Guix, from a checkout; nothing is published that could be downloaded.
;;;
;;;     cargo vendor target/vendor          # builders have no network: the libraries that the lock file names
;;;     guix build -f packaging/guix/angara.scm
;;;     guix install -f packaging/guix/angara.scm
;;;
;;; What lies in the folder is built, committed or not.

(use-modules (guix)
             (guix build-system gnu)
             ((guix licenses) #:prefix license:)
             (gnu packages rust))

(define checkout
  (canonicalize-path (string-append (current-source-directory) "/../..")))

(define (wanted? file stat)
  ;; Neither what Git keeps nor what was built, but the vendored libraries.
  (let ((name (string-drop file (string-length checkout))))
    (or (member name '("" "/target"))
        (string-prefix? "/target/vendor" name)
        (not (or (string-prefix? "/target/" name)
                 (string-prefix? "/.git/" name)
                 (string=? "/.git" name))))))

(package
  (name "angara")
  (version "0.1.0")
  (source (local-file checkout "angara-checkout"
                      #:recursive? #t
                      #:select? wanted?))
  (build-system gnu-build-system)
  (arguments
   (list
    #:tests? #f                         ;they need /sys, users and minutes; one program is tried below
    #:phases
    #~(modify-phases %standard-phases
        (replace 'configure
          (lambda _
            ;; There is no `cc`.
            (setenv "CC" "gcc")
            (setenv "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER" "gcc")
            (setenv "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER" "gcc")
            (setenv "CARGO_HOME" (string-append (getcwd) "/target/cargo"))
            (mkdir-p "target/cargo")
            (call-with-output-file "target/cargo/config.toml"
              (lambda (port)
                (format port "[source.crates-io]~%replace-with = \"vendored\"~%")
                (format port "[source.vendored]~%directory = ~s~%"
                        (string-append (getcwd) "/target/vendor"))))))
        (replace 'build
          (lambda* (#:key parallel-build? #:allow-other-keys)
            (invoke "cargo" "build" "--release" "--locked" "--offline" "-j"
                    (if parallel-build? (number->string (parallel-job-count)) "1"))))
        (replace 'install
          (lambda _
            (invoke "cargo" "xtask" "install" "--prefix" #$output
                    "--from" "target/release")))
        (add-after 'install 'try-a-program
          (lambda _
            (let ((bin (string-append #$output "/bin/"))
                  (examples (string-append #$output "/share/angara/examples/c/")))
              (invoke (string-append bin "oshcc") "-O2" (string-append examples "heat2d.c")
                      "-o" "heat2d" "-lm")
              (invoke (string-append bin "angara") "run" "-n" "4" "--path" "ring" "./heat2d")))))))
  (native-inputs (list rust-1.89 (list rust-1.89 "cargo")))
  (supported-systems '("x86_64-linux" "aarch64-linux"))
  (home-page #f)
  (synopsis "Software emulator of the Angara network")
  (description
   "Unmodified OpenSHMEM and MPI programs run on an emulated torus of one to four dimensions, as
supercomputers with Angara's chip have it.  The same model of the chip simulates networks of tens of
thousands of nodes.")
  (license (list license:asl2.0 license:expat)))
