package control

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Lack is the error of a verb that a library or a driver lacks. It matches errors.ErrUnsupported.
type Lack struct {
	Feature string
	Fields  uint64 // of completions: IBV_WC_EX_WITH_*, whose names follow Feature; 0 for none
	Need    string
	Have    string // "" for the device's name
}

func (l *Lack) Error() string { return l.Feature + " needs " + l.Need }

// Is reports whether target is errors.ErrUnsupported.
func (l *Lack) Is(target error) bool { return target == errors.ErrUnsupported }

// ExpPair describes a QP that only experimental verbs make: a DCI, a DCT, or one that posts atomics with masks.
type ExpPair struct {
	DCI, DCT  bool
	Key       uint64 // of a DCT
	MaxAtomic uint32 // bytes of the longest atomic with masks; 0 for none
}

// Pair has the verbs of one QP.
type Pair struct {
	Create  func(pd Handle, init *abi.QPInitAttrEx) (Handle, error)
	Destroy func(qp Handle) error
	Modify  func(qp Handle, attr *abi.QPAttr, mask uint32) error
	Query   func(qp Handle, attr *abi.QPAttr, mask uint32, init *abi.QPInitAttrEx) error

	Object  *Handle // of C, if it is not the QP's handle; else nil
	Address bool    // a DCI in RTR needs the address that it sends from

	// Poster returns what posts the slots of a chain of work requests, which has the operands of atomics with masks
	// elsewhere. It is nil where post_send does.
	Poster func(qp Handle, slots []abi.SendWR, masked []work.MaskedAtomic) (Poster, error)
	// Poller returns what has to poll the CQ of the sends. It is nil where poll_cq may.
	Poller func(cq Handle) (Poller, error)
}

// Poster posts work requests in place of post_send.
type Poster interface {
	// Post posts the first n slots. It returns how many the provider accepted, and its errno, 0 if it accepted all.
	Post(n int) (done, errno int)
	Free() error
}

// Completion is one that a Poller returns.
type Completion struct {
	abi.WC
	Timestamp, WallClock uint64
}

// Poller polls a CQ in place of poll_cq.
type Poller interface {
	// Poll returns up to n completions, which are valid until the next call. It returns false if the provider fails.
	Poll(n int) ([]Completion, bool)
	// Arm requests an event. It returns an errno.
	Arm(solicitedOnly bool) int
	Free() error
}
