package rsocket

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Before rdma-core v53, a service thread of librdmacm uses freed memory once it serves more than
// three sockets.
const (
	fixedIn   = 53
	maxServed = 3
)

// service is a thread of librdmacm. A process has one for listening sockets, and one for
// connections that were accepted or started without blocking.
type service struct {
	what  string
	limit int32 // 0: none
	n     atomic.Int32
}

// ServiceError is returned instead of creating a socket that would make this librdmacm crash. It
// matches ErrNotSupported.
type ServiceError struct {
	What    string // "listening sockets"
	Limit   int    // in a process
	Version string // of the library; may be empty
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("rsocket: %s crashes with more than %d %s in a process; "+
		"close some, or use rdma-core v%d or newer", strings.TrimSpace("librdmacm "+e.Version), e.Limit, e.What,
		fixedIn)
}

// Is reports whether target is ErrNotSupported.
func (e *ServiceError) Is(target error) bool { return target == ErrNotSupported }

// limitOf returns the limit of a version such as "44.0". If the version is unknown, v60 decides: it
// reports whether the library has functions of that release.
func limitOf(version string, v60 bool) int32 {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if v60 || err == nil && n >= fixedIn {
		return 0
	}
	return maxServed
}

// enter counts a socket.
func (v *service) enter(version string) error {
	if n := v.n.Add(1); v.limit > 0 && n > v.limit {
		v.n.Add(-1)
		return &ServiceError{What: v.what, Limit: int(v.limit), Version: version}
	}
	return nil
}

func (v *service) leave() { v.n.Add(-1) }
