//! What programs as coroutines may use of their libraries: what was looked at, and is right for many PEs in one process. All
//! else is refused by its name.
//!
//! A name is here for one of these reasons: it has no state but what its arguments point to; its state is kept per PE
//! (`libc_functions`, `exit`, `start`); or it changes what a PE has for itself, such as a file that it has opened. Then it
//! must not start a thread or a process, and not wait for one.

/// Names of libc by what they are about. For `open` there also are `open64` and what fortified programs call, `__open_chk`.
const LIBC: &[&str] = &[
    // Start and end, which are a PE's own: `exit`, `start`.
    "__libc_start_main __cxa_atexit __cxa_finalize __cxa_at_quick_exit atexit on_exit at_quick_exit exit _exit _Exit
    quick_exit abort __assert __assert_fail __assert_perror_fail __stack_chk_fail __chk_fail __fortify_fail
    __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __fdelt_warn",
    // Jumps stay on the stack of their PE.
    "setjmp _setjmp __sigsetjmp sigsetjmp longjmp _longjmp siglongjmp",
    // Bytes and strings. `strtok`, `strerror` and `strsignal` are a PE's own.
    "memcpy memmove memset memcmp __memcmpeq memchr memrchr rawmemchr memmem memccpy mempcpy __mempcpy memfrob
    bcopy bzero bcmp explicit_bzero swab ffs ffsl ffsll strcpy strncpy strcat strncat stpcpy __stpcpy stpncpy strlcpy
    strlcat strlen strnlen strcmp strncmp strcasecmp strncasecmp __strcasecmp strcoll strxfrm strverscmp strchr strrchr
    strchrnul strstr strcasestr strspn strcspn strpbrk strsep strtok strtok_r __strtok_r strdup __strdup strndup
    __strndup index rindex basename __xpg_basename dirname strerror strerror_r __xpg_strerror_r strerrorname_np
    strerrordesc_np strsignal sigabbrev_np sigdescr_np strfry argz_add argz_add_sep argz_append argz_count argz_create
    argz_create_sep argz_delete argz_extract argz_insert argz_next argz_replace argz_stringify envz_add envz_entry
    envz_get envz_merge envz_remove envz_strip",
    // Characters, in the locale "C": no PE can set another one for all.
    "isalnum isalpha isascii isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit toascii
    tolower toupper isalnum_l isalpha_l isblank_l iscntrl_l isdigit_l isgraph_l islower_l isprint_l ispunct_l isspace_l
    isupper_l isxdigit_l tolower_l toupper_l __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc
    __ctype_get_mb_cur_max iswalnum iswalpha iswblank iswcntrl iswdigit iswgraph iswlower iswprint iswpunct iswspace
    iswupper iswxdigit towlower towupper wctype iswctype wctrans towctrans mblen mbtowc wctomb mbstowcs wcstombs mbrlen
    mbrtowc wcrtomb mbsrtowcs wcsrtombs mbsnrtowcs wcsnrtombs mbsinit btowc wctob mbrtoc16 mbrtoc32 c16rtomb c32rtomb
    wcscpy wcsncpy wcscat wcsncat wcpcpy wcpncpy wcslen wcsnlen wcscmp wcsncmp wcscasecmp wcsncasecmp wcscoll wcsxfrm
    wcschr wcsrchr wcschrnul wcsstr wcswcs wcsspn wcscspn wcspbrk wcstok wcsdup wmemcpy wmemmove wmemset wmemcmp wmemchr
    wmempcpy wcwidth wcswidth wcstol wcstoll wcstoul wcstoull wcstod wcstof wcstold wcstoimax wcstoumax wcsftime
    localeconv nl_langinfo nl_langinfo_l newlocale __newlocale freelocale __freelocale duplocale __duplocale iconv
    iconv_open iconv_close strcoll_l strxfrm_l strcasecmp_l strncasecmp_l strtod_l strtof_l strtold_l strtol_l strtoll_l
    strtoul_l strtoull_l strftime_l",
    // Numbers. `rand`, `random`, `drand48` and `l64a` are a PE's own.
    "abs labs llabs imaxabs div ldiv lldiv imaxdiv atoi atol atoll atof strtol strtoll strtoul strtoull strtoq strtouq
    strtoimax strtoumax strtod strtof strtold strtof32 strtof64 strtof32x strtof64x strtof128 strfromd strfromf strfroml
    __strtol_internal __strtoul_internal __strtoll_internal __strtoull_internal __strtod_internal __strtof_internal
    __strtold_internal a64l l64a ecvt fcvt gcvt ecvt_r fcvt_r rand srand rand_r random srandom initstate setstate
    random_r srandom_r initstate_r setstate_r drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48 seed48 lcong48
    drand48_r erand48_r lrand48_r nrand48_r mrand48_r jrand48_r srand48_r seed48_r lcong48_r getrandom getentropy
    arc4random arc4random_buf arc4random_uniform htonl htons ntohl ntohs",
    // Memory. Each PE has what it asked for.
    "malloc calloc realloc reallocarray free cfree memalign aligned_alloc posix_memalign valloc pvalloc
    malloc_usable_size mmap munmap mprotect mremap madvise posix_madvise msync mincore mlock mlock2 munlock memfd_create
    shm_open shm_unlink shmget shmat shmdt shmctl getpagesize",
    // Sorting, searching, matching: state is with the caller.
    "qsort qsort_r bsearch lfind lsearch tsearch tfind tdelete twalk twalk_r tdestroy hcreate_r hdestroy_r hsearch_r
    insque remque fnmatch glob globfree regcomp regexec regerror regfree getsubopt _obstack_begin _obstack_begin_1
    _obstack_newchunk _obstack_free obstack_free _obstack_memory_used _obstack_allocated_p",
    // Streams. The standard ones are a PE's own, and files are closed at its end.
    "fopen fdopen freopen fclose fcloseall fflush tmpfile fmemopen open_memstream fopencookie setbuf setbuffer
    setlinebuf setvbuf printf fprintf sprintf snprintf asprintf __asprintf dprintf vprintf vfprintf vsprintf vsnprintf
    __snprintf __vsnprintf vasprintf vdprintf obstack_printf obstack_vprintf scanf fscanf sscanf vscanf vfscanf vsscanf
    puts fputs fputs_unlocked putchar putchar_unlocked putc putc_unlocked _IO_putc fputc fputc_unlocked putw fgetc
    fgetc_unlocked getc getc_unlocked _IO_getc getchar getchar_unlocked gets fgets fgets_unlocked getw getline getdelim
    __getdelim ungetc fread fread_unlocked fwrite fwrite_unlocked fseek fseeko ftell ftello rewind fgetpos fsetpos feof
    feof_unlocked ferror ferror_unlocked clearerr clearerr_unlocked fileno fileno_unlocked fflush_unlocked flockfile
    ftrylockfile funlockfile __overflow __uflow __underflow __fpending __fpurge __fbufsize __freading __fwriting
    __freadable __fwritable __flbf __fsetlocking perror psignal tempnam swprintf vswprintf swscanf vswscanf",
    // Messages, some of which end the PE.
    "err errx verr verrx warn warnx vwarn vwarnx error error_at_line",
    // Arguments and environment, a PE's own.
    "getopt __posix_getopt getopt_long getopt_long_only getenv secure_getenv __secure_getenv setenv putenv unsetenv
    clearenv",
    // Time, which is virtual; what is answered in memory of libc is a PE's own.
    "time clock clock_gettime clock_getres clock_nanosleep gettimeofday ftime timespec_get timespec_getres times
    getrusage nanosleep usleep sleep sched_yield thrd_sleep thrd_yield pthread_yield difftime mktime timegm timelocal
    gmtime gmtime_r localtime localtime_r asctime asctime_r ctime ctime_r strftime strptime tzset poll ppoll select
    pselect",
    // Files by their names.
    "open openat creat __open_2 __openat_2 __open64_2 __openat64_2 stat fstat lstat fstatat __xstat __fxstat __lxstat
    __fxstatat statx statfs fstatfs statvfs fstatvfs access faccessat eaccess euidaccess chmod fchmod fchmodat chown
    fchown lchown fchownat utime utimes futimes lutimes utimensat futimens link linkat symlink symlinkat readlink
    readlinkat rename renameat renameat2 unlink unlinkat remove mkdir mkdirat rmdir mkfifo mkfifoat mknod mknodat
    mktemp mkstemp mkstemps mkostemp mkostemps mkdtemp realpath canonicalize_file_name truncate opendir fdopendir
    closedir readdir readdir_r rewinddir seekdir telldir dirfd scandir scandirat alphasort versionsort ftw pathconf
    fpathconf getcwd get_current_dir_name getwd ftok",
    // Descriptors: those that a PE has opened. Standard ones are looked at.
    "close __close read __read write __write pread pwrite readv writev preadv pwritev preadv2 pwritev2 lseek __lseek
    fsync fdatasync sync syncfs ftruncate fallocate posix_fallocate posix_fadvise readahead sync_file_range
    copy_file_range sendfile dup pipe pipe2 fcntl flock ioctl isatty socket socketpair bind listen accept accept4
    connect shutdown getsockname getpeername getsockopt setsockopt send sendto sendmsg recv recvfrom recvmsg eventfd
    eventfd_read eventfd_write epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait inet_addr inet_aton inet_ntoa
    inet_ntop inet_pton inet_network inet_makeaddr inet_lnaof inet_netof getaddrinfo freeaddrinfo gai_strerror
    getnameinfo",
    // Questions about machine and process, which are the same for all PEs.
    "getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid getgroups
    gethostname getdomainname gethostid uname sysconf confstr sysinfo get_nprocs get_nprocs_conf get_phys_pages
    get_avphys_pages getloadavg getrlimit getpriority getdtablesize sched_getcpu getcpu sched_getaffinity
    pthread_getaffinity_np __sched_cpucount __sched_cpualloc __sched_cpufree gnu_get_libc_version gnu_get_libc_release
    getlogin_r getpwuid_r getpwnam_r getgrgid_r getgrnam_r gethostbyname_r gethostbyname2_r
    gethostbyaddr_r getservbyname_r getservbyport_r getprotobyname_r getprotobynumber_r getmntent_r ttyname_r ptsname_r
    tmpnam_r qecvt_r qfcvt_r",
    // Locks of a program without threads: they lie in a PE's own memory and are free.
    "pthread_self pthread_equal pthread_once __pthread_once pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock
    pthread_mutex_trylock pthread_mutex_unlock __pthread_mutex_init __pthread_mutex_destroy __pthread_mutex_lock
    __pthread_mutex_trylock __pthread_mutex_unlock pthread_mutex_timedlock pthread_mutexattr_init
    pthread_mutexattr_destroy pthread_mutexattr_settype pthread_mutexattr_gettype pthread_mutexattr_setpshared
    pthread_mutexattr_getpshared pthread_mutexattr_setprotocol pthread_mutexattr_setrobust pthread_rwlock_init
    pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_wrlock pthread_rwlock_trywrlock
    pthread_rwlock_unlock pthread_rwlockattr_init pthread_rwlockattr_destroy pthread_rwlockattr_setpshared
    pthread_spin_init pthread_spin_destroy pthread_spin_lock pthread_spin_trylock pthread_spin_unlock pthread_cond_init
    pthread_cond_destroy pthread_cond_signal pthread_cond_broadcast pthread_condattr_init pthread_condattr_destroy
    pthread_condattr_setclock pthread_condattr_setpshared pthread_attr_init pthread_attr_destroy
    pthread_attr_setstacksize pthread_attr_getstacksize pthread_attr_setdetachstate pthread_attr_getdetachstate
    mtx_init mtx_destroy mtx_lock mtx_trylock mtx_unlock call_once thrd_current thrd_equal cnd_init cnd_destroy
    cnd_signal cnd_broadcast sem_init sem_destroy sem_post sem_trywait sem_getvalue __pthread_key_create",
    // Sets of signals are numbers.
    "sigemptyset sigfillset sigaddset sigdelset sigismember sigisemptyset",
    // Variables. Those that can change are a PE's own while it runs.
    // The compiler may name what reaches thread-local variables where the linker needs it no more; who does is refused.
    "stdin stdout stderr environ __environ _environ optind optarg opterr optopt program_invocation_name
    program_invocation_short_name __progname __progname_full in6addr_any in6addr_loopback __errno_location
    __libc_single_threaded __tls_get_addr",
];

/// Names of libm for `double`; each has others for `float`, `long double` and `_FloatN`. `lgamma` also writes `signgam`,
/// which no program may read.
const LIBM: &str = "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1
    fabs fdim floor fma fmax fmin fmaximum fminimum fmaximum_num fminimum_num fmaximum_mag fminimum_mag
    fmaximum_mag_num fminimum_mag_num fmaxmag fminmag fmod frexp fromfp fromfpx ufromfp ufromfpx hypot ilogb llogb j0 j1
    jn y0 y1 yn ldexp lgamma gamma lgamma_r gamma_r llrint llround lrint lround log log10 log1p log2 logb modf nan
    nearbyint nextafter nexttoward nextup nextdown pow pow10 remainder drem remquo rint round roundeven scalb scalbln
    scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc canonicalize getpayload setpayload setpayloadsig
    totalorder totalordermag finite isinf isnan fpclassify signbit issignaling iseqsig iscanonical cabs cacos cacosh
    carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin csinh csqrt ctan ctanh";

/// The floating-point environment, of which each PE has its own.
const FENV: &str = "feclearexcept fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode
    fegetround feholdexcept feraiseexcept fesetenv fesetexcept fesetexceptflag fesetmode fesetround fetestexcept
    fetestexceptflag feupdateenv";

/// Functions that compilers call for arithmetic, from libgcc_s; and what stands at exceptions.
const LIBGCC: &str = "__absvdi2 __absvsi2 __absvti2 __addtf3 __addvdi3 __addvsi3 __addvti3 __ashlti3 __ashrti3
    __bswapdi2 __bswapsi2 __clear_cache __clrsbdi2 __clrsbti2 __clzdi2 __clzti2 __cmpti2 __cpu_indicator_init
    __cpu_model __ctzdi2 __ctzti2 __divdc3 __divhc3 __divmodti4 __divsc3 __divtc3 __divtf3 __divti3 __divxc3 __eqhf2
    __eqtf2 __extenddftf2 __extendhfdf2 __extendhfsf2 __extendhftf2 __extendhfxf2 __extendsfdf2 __extendsftf2
    __extendxftf2 __ffsdi2 __ffsti2 __fixdfti __fixhfti __fixsfti __fixtfdi __fixtfsi __fixtfti __fixunsdfdi
    __fixunsdfti __fixunshfti __fixunssfdi __fixunssfti __fixunstfdi __fixunstfsi __fixunstfti __fixunsxfdi
    __fixunsxfti __fixxfti __floatditf __floatsitf __floattidf __floattihf __floattisf __floattitf __floattixf
    __floatunditf __floatunsitf __floatuntidf __floatuntihf __floatuntisf __floatuntitf __floatuntixf
    __gcc_personality_v0 __getf2 __gttf2 __letf2 __lshrti3 __lttf2 __modti3 __muldc3 __mulhc3 __mulsc3 __multc3
    __multf3 __multi3 __mulvdi3 __mulvsi3 __mulvti3 __mulxc3 __negtf2 __negti2 __negvdi2 __negvsi2 __negvti2 __nehf2
    __netf2 __paritydi2 __parityti2 __popcountdi2 __popcountti2 __powidf2 __powisf2 __powitf2 __powixf2 __subtf3
    __subvdi3 __subvsi3 __subvti3 __truncdfhf2 __truncdfsf2 __truncsfhf2 __trunctfdf2 __trunctfhf2 __trunctfsf2
    __trunctfxf2 __truncxfhf2 __ucmpti2 __udivmodti4 __udivti3 __umodti3 __unordtf2";

/// Functions of the C++ language. What is under way, and in handlers, is a PE's own.
const LANGUAGE: &str = "__cxa_allocate_dependent_exception __cxa_allocate_exception __cxa_bad_cast __cxa_bad_typeid
    __cxa_begin_catch __cxa_call_terminate __cxa_call_unexpected __cxa_current_exception_type __cxa_deleted_virtual
    __cxa_demangle __cxa_end_catch __cxa_free_dependent_exception __cxa_free_exception __cxa_get_exception_ptr
    __cxa_get_globals __cxa_get_globals_fast __cxa_guard_abort __cxa_guard_acquire __cxa_guard_release
    __cxa_init_primary_exception __cxa_pure_virtual __cxa_rethrow __cxa_throw __cxa_throw_bad_array_length
    __cxa_throw_bad_array_new_length __cxa_vec_cctor __cxa_vec_cleanup __cxa_vec_ctor __cxa_vec_delete
    __cxa_vec_delete2 __cxa_vec_delete3 __cxa_vec_dtor __cxa_vec_new __cxa_vec_new2 __cxa_vec_new3 __dynamic_cast
    __gxx_personality_v0 _ZNSt6thread20hardware_concurrencyEv";

/// Names of `std`, of classes and of functions. Operators of any of them are allowed.
const STD: &[&str] = &[
    // Strings and numbers.
    "basic_string char_traits to_chars from_chars __convert_to_v numeric_limits __numeric_limits_base",
    // Containers and memory.
    "_Rb_tree_black_count _Rb_tree_decrement _Rb_tree_increment _Rb_tree_insert_and_rebalance
    _Rb_tree_rebalance_for_erase _Rb_tree_rotate_left _Rb_tree_rotate_right _List_node_base _Hash_bytes _Fnv_hash_bytes
    hash valarray gslice condition_variable __shared_ptr _Sp_make_shared_tag _Sp_locker bad_weak_ptr placeholders nothrow adopt_lock
    defer_lock try_to_lock piecewise_construct ignore memory_resource monotonic_buffer_resource
    synchronized_pool_resource unsynchronized_pool_resource get_default_resource new_delete_resource
    null_memory_resource _Prime_rehash_policy",
    // Streams. The standard ones look for each PE as it has left them.
    "cout cerr clog cin ios_base basic_ios basic_streambuf basic_istream basic_ostream basic_iostream basic_filebuf
    basic_ifstream basic_ofstream basic_fstream basic_stringbuf basic_istringstream basic_ostringstream
    basic_stringstream strstreambuf istrstream ostrstream strstream __basic_file istreambuf_iterator getline endl ends
    flush ws __ostream_insert __istream_extract __copy_streambufs __copy_streambufs_eof iostream_category",
    // Locales that a stream has; the one of all is "C".
    "locale use_facet has_facet ctype ctype_base ctype_byname codecvt codecvt_base codecvt_byname collate
    collate_byname messages messages_base messages_byname money_base money_get money_put moneypunct moneypunct_byname
    num_get num_put numpunct numpunct_byname time_base time_get time_get_byname time_put time_put_byname __num_base
    __codecvt_abstract_base __codecvt_utf16_base __codecvt_utf8_base __codecvt_utf8_utf16_base __ctype_abstract_base
    __moneypunct_cache __numpunct_cache __timepunct __timepunct_cache __time_get_state __verify_grouping",
    // Exceptions and handlers.
    "exception bad_exception bad_alloc bad_array_length bad_array_new_length bad_cast bad_typeid bad_function_call
    logic_error domain_error invalid_argument length_error out_of_range runtime_error range_error overflow_error
    underflow_error system_error regex_error filesystem_error nested_exception __exception_ptr error_category error_code
    error_condition generic_category system_category type_info current_exception rethrow_exception uncaught_exception
    uncaught_exceptions terminate unexpected get_terminate set_terminate get_unexpected set_unexpected get_new_handler
    set_new_handler __throw_bad_alloc __throw_bad_array_new_length __throw_bad_cast __throw_bad_exception
    __throw_bad_function_call __throw_bad_typeid __throw_domain_error __throw_invalid_argument __throw_ios_failure
    __throw_length_error __throw_logic_error __throw_out_of_range __throw_out_of_range_fmt __throw_overflow_error
    __throw_range_error __throw_regex_error __throw_runtime_error __throw_system_error __throw_underflow_error
    __glibcxx_assert_fail",
    // Time, which is virtual, and random numbers of the system.
    "steady_clock system_clock __sleep_for random_device",
    // Files.
    "path directory_iterator recursive_directory_iterator hash_value absolute canonical weakly_canonical relative
    proximate copy copy_file copy_symlink create_directories create_directory create_directory_symlink create_hard_link
    create_symlink current_path equivalent file_size hard_link_count is_empty last_write_time permissions read_symlink
    remove remove_all rename resize_file space status symlink_status temp_directory_path",
];

/// Namespaces inside `std`, as they are mangled.
const INSIDE_STD: [&str; 9] =
    ["7__cxx11", "3_V2", "6chrono", "10filesystem", "3pmr", "11this_thread", "8__detail", "9__cxx1998", "3tr1"];

/// Namespaces of libstdc++ beside `std`: type information, what `std` is made of, checks.
const BESIDE_STD: [&str; 3] = ["10__cxxabiv1", "9__gnu_cxx", "11__gnu_debug"];

/// Functions of OpenSHMEM, of its forerunners, and ours.
const LIBSMA: [&str; 6] = ["shmem", "SHMEM_", "pshmem", "_shmem", "angara_", "pangara_"];
const LIBSMA_OLD: &str =
    "my_pe num_pes _my_pe _num_pes p_my_pe p_num_pes start_pes pstart_pes shmalloc shfree shrealloc
    shmemalign pshmalloc pshfree pshrealloc pshmemalign";

/// Programs may use this of their libraries.
pub(crate) fn allowed(name: &str) -> bool {
    LIBSMA.iter().any(|prefix| name.starts_with(prefix))
        || name.starts_with("_Unwind_")
        || [LIBSMA_OLD, LIBGCC, LANGUAGE, FENV].iter().any(|names| is_among(names, name))
        || libc(name)
        || libm(name)
        || cxx(name)
}

fn is_among(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|n| n == name)
}

/// A name of libc, or one that another edition of it is called by: for newer standards of C, for buffers whose size the
/// compiler knows, for long files.
fn libc(name: &str) -> bool {
    let listed = |name: &str| LIBC.iter().any(|names| is_among(names, name));
    let plain = ["__isoc99_", "__isoc23_"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
    let plain = plain.strip_prefix("__").and_then(|n| n.strip_suffix("_chk")).unwrap_or(plain);
    let plain = plain.strip_suffix("v2").filter(|n| n.ends_with("64")).map_or(plain, |n| n);
    listed(name) || listed(plain) || plain.strip_suffix("64").is_some_and(listed)
}

/// A name of libm, for any type; also what `-ffast-math` called, and what `math.h` makes of macros.
fn libm(name: &str) -> bool {
    let plain = name.strip_prefix("__").unwrap_or(name);
    let plain = plain.strip_suffix("_finite").unwrap_or(plain);
    let reentrant = plain.strip_suffix("_r");
    let base = reentrant.unwrap_or(plain);
    let types = ["", "f", "l", "f32", "f64", "f32x", "f64x", "f128"];
    let mut bases = types.iter().filter_map(|t| base.strip_suffix(t));
    bases.any(|b| match reentrant {
        Some(_) => is_among("lgamma gamma", b),
        None => is_among(LIBM, b),
    })
}

/// A mangled name of libstdc++.
fn cxx(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("_Z") else { return false };
    // operator new and delete; descriptions of types are constants.
    if ["nw", "na", "dl", "da", "TI", "TS"].iter().any(|p| rest.starts_with(p)) {
        return true;
    }
    let rest = ["TV", "TT", "TC", "GV"].iter().find_map(|p| rest.strip_prefix(p)).unwrap_or(rest);
    let rest = ["Th", "Tv"]
        .iter()
        .find_map(|p| rest.strip_prefix(p))
        .map_or(rest, |offsets| offsets.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_' || c == 'n'));
    let rest = rest.strip_prefix('N').unwrap_or(rest);
    let rest = rest.trim_start_matches(['K', 'V']);
    // Short for allocator, string, istream, ostream, iostream.
    if ["Sa", "Ss", "Si", "So", "Sd"].iter().any(|p| rest.starts_with(p)) {
        return true;
    }
    match rest.strip_prefix("St") {
        None => BESIDE_STD.iter().any(|space| rest.starts_with(space)),
        Some(mut rest) => {
            while let Some(inner) = INSIDE_STD.iter().find_map(|space| rest.strip_prefix(space)) {
                rest = inner;
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            match rest[..digits].parse::<usize>() {
                Ok(len) => rest[digits..].get(..len).is_some_and(|n| STD.iter().any(|names| is_among(names, n))),
                // An operator.
                Err(_) => rest.starts_with(|c: char| c.is_ascii_lowercase()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusals::why_not;
    use crate::{exit, libc_functions, start};

    fn names() -> impl Iterator<Item = &'static str> {
        LIBC.iter().flat_map(|names| names.split_ascii_whitespace())
    }

    /// libc, or what a program opens beside it, has it.
    fn exists(name: &str) -> bool {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: terminated names.
        unsafe {
            let m = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
            !libc::dlsym(m, name.as_ptr()).is_null() || !libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).is_null()
        }
    }

    #[test]
    fn no_name_is_allowed_and_refused() {
        let all = names().chain([LIBM, FENV, LIBGCC, LIBSMA_OLD].iter().flat_map(|n| n.split_ascii_whitespace()));
        let both: Vec<_> = all.filter_map(|n| why_not(&[n])).collect();
        assert!(both.is_empty(), "{both:?}");
    }

    #[test]
    fn libc_has_the_names() {
        // Of newer or older ones, of startup files and of compilers, without a default version.
        let others =
            "strlcpy strlcat arc4random arc4random_buf arc4random_uniform timespec_getres __gmon_start__ getcpu
            _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable cfree gets at_quick_exit atexit pthread_yield ftime
            __libc_single_threaded __memcmpeq strerrorname_np strerrordesc_np sigabbrev_np sigdescr_np
            __fortify_fail mknod mknodat stat fstat lstat fstatat setjmp sigsetjmp _obstack_free obstack_free drem
            gettid mlock2 statx renameat2 memfd_create copy_file_range preadv2 pwritev2 fpclassify signbit issignaling
            iseqsig iscanonical pow10 gamma_r strtof32 strtof64 strtof32x strtof64x strtof128 __overflow
            __secure_getenv __pthread_once __pthread_mutex_init __pthread_mutex_destroy __pthread_mutex_lock
            __pthread_mutex_trylock __pthread_mutex_unlock";
        let math = LIBM.split_ascii_whitespace().filter(|n| !n.starts_with("fm") || !n.contains("imum"));
        let missing: Vec<_> = names()
            .chain(math)
            .chain(FENV.split_ascii_whitespace())
            .filter(|n| !exists(n) && !is_among(others, n))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn twins_of_what_is_kept_per_pe_are_kept_too() {
        let kept =
            |n: &str| libc_functions::symbol(n).is_some() || exit::symbol(n).is_some() || start::symbol(n).is_some();
        assert!(kept("fopen") && kept("strtok"));
        for name in names().filter(|n| kept(n)) {
            let twins = [
                format!("{name}64"),
                format!("__{name}"),
                format!("__{name}_chk"),
                format!("{name}_unlocked"),
                format!("__isoc99_{name}"),
                format!("__isoc23_{name}"),
            ];
            for twin in twins.iter().filter(|t| exists(t)) {
                assert!(kept(twin) || !allowed(twin), "{twin}");
            }
        }
    }

    #[test]
    fn other_editions_are_told_from_other_functions() {
        for name in [
            "__printf_chk",
            "__isoc99_sscanf",
            "__isoc23_strtol",
            "open64",
            "preadv64v2",
            "__longjmp_chk",
            "sinf",
            "sincosl",
            "cexpf64x",
            "__pow_finite",
            "lgammaf_r",
            "__lgamma_r_finite",
            "__fpclassifyl",
            "__isnanf",
            "fetestexcept",
            "_Unwind_Resume",
            "__udivti3",
            "shmem_init",
            "pshmem_quiet",
            "shmemx_anything",
            "my_pe",
        ] {
            assert!(allowed(name), "{name}");
        }
        for name in ["sinx", "sin_r", "__nobody_chk", "getpwuid", "signgam", "sqrt64", "nothing64", "dlsym", ""] {
            assert!(!allowed(name), "{name}");
        }
    }

    #[test]
    fn classes_of_cxx() {
        for name in [
            "_Znwm",
            "_ZdlPvm",
            "_ZSt4cout",
            "_ZSt4endlIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_",
            "_ZNSolsEi",
            "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
            "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm",
            "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4findEcm",
            "_ZTVSt13runtime_error",
            "_ZTVN10__cxxabiv117__class_type_infoE",
            "_ZTISt9exception",
            "_ZTIi",
            "_ZTTNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEE",
            "_ZTv0_n24_NSoD0Ev",
            "_ZNSt6chrono3_V212steady_clock3nowEv",
            "_ZNSt3_V215system_categoryEv",
            "_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base",
            "_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm",
            "_ZSt20__throw_length_errorPKc",
            "_ZNSt15__exception_ptr13exception_ptrC1EPv",
            "_ZNSt6thread20hardware_concurrencyEv",
        ] {
            assert!(allowed(name), "{name}");
        }
        for name in [
            "_ZNSt13__future_base12_Result_baseC2Ev",
            "_ZSt5wcout",
            "_ZN6nobody3anyEv",
            "_ZNSt3pmr20set_default_resourceEPNS_15memory_resourceE",
            "_ZNSt99",
            "_ZNSt",
            "_Z",
        ] {
            assert!(!allowed(name), "{name}");
        }
        // Parts of classes that are allowed.
        for name in [
            "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
            "_ZNSt6locale6globalERKS_",
            "_ZNSt10filesystem12current_pathERKNS_7__cxx114pathE",
        ] {
            assert!(allowed(name) && why_not(&[name]).is_some(), "{name}");
        }
    }
}
