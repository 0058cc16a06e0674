// Package loader finds and opens libibverbs, librdmacm and libmlx5 while the
// program runs, and tells what it found. Users of package ibv do not need it,
// except to ask for [Report] when something is wrong.
//
// A program that imports it starts without any of these libraries; [Open] then
// returns a [*LibraryError] that names the package to install.
//
// # Where it looks
//
//   - What [SetPath] said, or else the environment variable
//     PUREVERBS_LIBRARY_PATH: folders and library files, separated by colons.
//     Whoever names a place means it: nothing else is tried for a library that the
//     list speaks of. A folder speaks of all libraries, a file of the one that it is
//     named after. The folders libibverbs loads its drivers from are its own.
//   - The dynamic linker's own search, by soname.
//   - Folders where OFED, DOCA and hand-made installations put libraries.
//
// Libraries are opened with RTLD_NOW|RTLD_LOCAL and never closed: drivers register
// themselves in them, and threads may be inside. libmlx5 is always the file that
// libibverbs loaded as its driver; a second copy would not know the first one's
// devices.
//
// A file is looked at before the linker is asked for it: one that is cut off, or of
// another architecture, gives an error that says so.
//
// # A folder of libraries
//
// libibverbs loads its drivers (providers) from a folder that was fixed when it was
// built, and those only that the files of another such folder name, usually
// /etc/libibverbs.d. A folder with a copy of libibverbs and of drivers therefore
// gives the library of the copy and the drivers of the host, if there are any and
// they are of the same build. The copies are taken where RDMAV_DRIVERS, which
// libibverbs itself reads, has the beginnings of their paths:
//
//	PUREVERBS_LIBRARY_PATH=/opt/app/lib RDMAV_DRIVERS=/opt/app/lib/libmlx5
//
// for libmlx5-rdmav34.so in /opt/app/lib. Set it before the program starts: Go's
// os.Setenv does not reach C. [Report] lists the drivers and what is wrong with
// those that are not taken; a device that no driver takes is missing from the
// library's list, and package ibv says why.
//
// # Programs with more rights than their caller
//
// In a program with more rights than its caller (setuid, setgid, file
// capabilities) PUREVERBS_LIBRARY_PATH is ignored, and the variables by which the
// libraries would take code or files from the caller are withdrawn from the C
// library's environment: RDMAV_DRIVERS, IBV_DRIVERS, SYSFS_PATH, VERBS_LOG_FILE and
// MLX5_DEBUG_FILE. [Report] lists those that were set. What SetPath says counts.
// PUREVERBS_CCALL, PUREVERBS_DATAPATH and PUREVERBS_LEAKS are followed: they choose
// between ways of this module that do the same, and print.
//
// # What is missing
//
// Symbols are looked up when first asked for. A library that is older than a
// function lacks only that: [Library.Symbol] returns a [*SymbolError], which is
// [ErrNotSupported].
//
// Everything here is safe for concurrent use.
package loader
