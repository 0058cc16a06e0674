// Package notify runs a program under a supervisor that answers some of its system calls in the kernel's stead (seccomp
// user notification). It knows nothing of RDMA: a [Handler] gets the calls.
//
// Three processes take part. The supervisor calls [Start]. It starts an init, which is the program's parent and the
// reaper of all its descendants, passes its exit code on and leaves none alive. The init starts the shim, which
// installs the filter on itself and becomes the program. Init and shim are the supervisor's own executable, so its main
// function calls [Shim] before anything else.
package notify
