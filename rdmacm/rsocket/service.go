package rsocket

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Before rdma-core v53 librdmacm's service threads use freed memory once more than
// three sockets are with them.
const (
	mended       = 53
	brokenBeyond = 3
)

// service is one of librdmacm's threads: a process has one for sockets that listen,
// and one for connections that were accepted, or begun without blocking.
type service struct {
	what  string
	limit int32 // 0: none
	n     atomic.Int32
}

// ServiceError is a socket too many for a librdmacm that breaks beyond. It is
// ErrNotSupported.
type ServiceError struct {
	What    string // "listening sockets"
	Limit   int    // in a process
	Version string // of the library; may be empty
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("rsocket: %s crashes with more than %d %s in a process; "+
		"close some, or use rdma-core v%d or newer", strings.TrimSpace("librdmacm "+e.Version), e.Limit, e.What, mended)
}

// Is reports whether target is ErrNotSupported.
func (e *ServiceError) Is(target error) bool { return target == ErrNotSupported }

// limitOf is that of a version, "44.0". A file whose name has none is judged by
// whether it has functions of v60.
func limitOf(version string, v60 bool) int32 {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if v60 || err == nil && n >= mended {
		return 0
	}
	return brokenBeyond
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
