// Package loader finds and opens libibverbs, librdmacm, libmlx5 and libefa at run time, and reports what it
// found. Users of package ibv need it only for a [Report] when something is wrong.
//
//	fmt.Print(loader.Report()) // for a bug report: libraries, versions, drivers, what they lack
//
// A program that imports it starts without any of these libraries. [Open] then returns a [*LibraryError] that begins
// with the command that installs them.
//
// # Names by task
//
//   - Reporting: [Report] returns an [Info] with a [LibraryInfo] for each library, what it lacks ([Lack]), and the
//     drivers ([Provider]).
//   - Calling a C function that this module does not bind: [Open] a [Library] by its [Name], and [Library.Symbol].
//     [Names] lists the libraries.
//   - Choosing the libraries: [SetPath], or the environment variable [PathEnv].
//   - Errors: [LibraryError] with each [Try] and the [Package] to install, [InstanceError], [SymbolError].
//
// # Where it looks
//
//   - The list given to [SetPath], or else in the environment variable
//     PUREVERBS_LIBRARY_PATH: folders and library files, separated by colons. A folder applies to all libraries, a
//     file to the library that it is named after. No other place is tried for a library that the list applies to.
//     The list does not change where libibverbs looks for its drivers.
//   - The dynamic linker's own search, by soname.
//   - Folders where OFED, DOCA and manual installations put libraries.
//
// Libraries are opened with RTLD_NOW|RTLD_LOCAL and never closed, because drivers register themselves in them and
// threads may be inside. libmlx5 is always the file that libibverbs loaded as its driver: a second copy would not
// know the first one's devices.
//
// A file is checked before the linker loads it. The error says if it is truncated or of another
// architecture.
//
// # A folder of libraries
//
// libibverbs loads its drivers (providers) from a folder that was fixed when it was built, and only
// those named by the files of a second such folder, usually /etc/libibverbs.d. From a folder with
// copies of libibverbs and its drivers, this module therefore loads the copy of libibverbs, but
// that loads the host's drivers, if there are any of the same build. To load the copied drivers,
// set RDMAV_DRIVERS, which libibverbs itself reads, to their paths up to the suffix:
//
//	PUREVERBS_LIBRARY_PATH=/opt/app/lib RDMAV_DRIVERS=/opt/app/lib/libmlx5
//
// for libmlx5-rdmav34.so in /opt/app/lib. Set it before the program starts: Go's os.Setenv does not
// reach C. [Report] lists the drivers, and what is wrong with those that are not loaded. A device
// without a driver is missing from the library's list; package ibv reports the reason.
//
// # Setuid programs
//
// A program with more privileges than its caller (setuid, setgid, file capabilities) ignores
// PUREVERBS_LIBRARY_PATH. The variables that make the libraries load code or open files of the
// caller's choice are removed from the C library's environment: RDMAV_DRIVERS, IBV_DRIVERS,
// SYSFS_PATH, VERBS_LOG_FILE and MLX5_DEBUG_FILE. [Report] lists those that were set. SetPath still
// applies. So do PUREVERBS_CCALL, PUREVERBS_DATAPATH and PUREVERBS_LEAKS, which only select between
// equivalent implementations or print diagnostics.
//
// # Missing functions
//
// Symbols are looked up when they are first used. If a library is older than a function, only that function is
// missing: [Library.Symbol] returns a [*SymbolError], which matches [ErrNotSupported].
//
// # Goroutines
//
// Everything is safe for concurrent use.
package loader
