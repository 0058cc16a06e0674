package rdma

import (
	"errors"
	"fmt"
)

// Sentinels, for errors.Is.
var (
	// ErrRevoked is returned for memory whose owner has revoked the lease.
	ErrRevoked = errors.New("the lease was revoked")
	// ErrExpired is returned for memory whose lease has come to its end.
	ErrExpired = errors.New("the lease has expired")
	// ErrReturned is returned for memory that its holder has returned.
	ErrReturned = errors.New("the lease was returned")
	// ErrRefused is matched by a *RefusedError.
	ErrRefused = errors.New("the peer refuses")
)

// RefuseReason is why a peer refused a Request.
type RefuseReason uint32

const (
	RefusedByHandler RefuseReason = iota // its OnRequest returned an error
	RefusedNoHandler                     // it has no OnRequest
	RefusedLimit                         // more than its LeaseOptions allow
)

var refuseReasons = []string{"its handler said no", "it has no handler for requests", "more than it lends"}

func (r RefuseReason) String() string {
	if int(r) < len(refuseReasons) {
		return refuseReasons[r]
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// RefusedError reports that the peer refused a Request. It matches ErrRefused.
type RefusedError struct{ Reason RefuseReason }

func (e *RefusedError) Error() string { return fmt.Sprintf("%v: %v", ErrRefused, e.Reason) }

// Is reports whether target is ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// RightError reports an operation that the lease does not permit.
type RightError struct{ Need, Have Access }

func (e *RightError) Error() string {
	return fmt.Sprintf("the lease permits %v, not %v", e.Have, e.Need)
}
