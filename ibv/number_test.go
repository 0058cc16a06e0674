package ibv

import (
	"errors"
	"math"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// numbered calls with a number, for each of the table.
func (s *side) numbered(t *testing.T) map[*number]func(n int) error {
	ops := &CQOptions{DataPath: DataPathOps}
	qp := func(o QPOptions) error { return closed(s.pd.CreateQP(s.cq, s.cq, &o)) }
	calls := map[*number]func(n int) error{
		&numCQE:        func(n int) error { return errors.Join(s.cq.Resize(n), closed(s.dev.CreateCQ(n, ops))) },
		&numMaxSendWR:  func(n int) error { return qp(QPOptions{MaxSendWR: n}) },
		&numMaxRecvWR:  func(n int) error { return qp(QPOptions{MaxRecvWR: n}) },
		&numMaxSendSGE: func(n int) error { return qp(QPOptions{MaxSendSGE: n}) },
		&numMaxRecvSGE: func(n int) error { return qp(QPOptions{MaxRecvSGE: n}) },
		&numMaxInline:  func(n int) error { return qp(QPOptions{MaxInline: n}) },
		&numSRQWR:      func(n int) error { return closed(s.pd.CreateSRQ(&SRQOptions{MaxWR: n})) },
		&numSRQSGE:     func(n int) error { return closed(s.pd.CreateSRQ(&SRQOptions{MaxSGE: n})) },
		&numWQWR:       func(n int) error { return closed(s.pd.CreateWQ(s.cq, &WQOptions{MaxWR: n})) },
		&numWQSGE:      func(n int) error { return closed(s.pd.CreateWQ(s.cq, &WQOptions{MaxSGE: n})) },
		&numDM:         func(n int) error { return closed(s.dev.AllocDM(n, nil)) },
	}
	tags, err := s.dev.CreateCQ(16, &CQOptions{DataPath: DataPathOps, Fields: FieldTMInfo})
	if err != nil { // no tag matching
		return calls
	}
	closing(t, tags)
	calls[&numTags] = func(n int) error {
		return closed(s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: tags, MaxTags: n, MaxTagOps: 1}))
	}
	calls[&numTagOps] = func(n int) error {
		return closed(s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: tags, MaxTags: 1, MaxTagOps: n}))
	}
	return calls
}

// atLimits asks for more than each number of the table permits. The library would miscount, and must get none of them.
func (s *side) atLimits(t *testing.T) {
	t.Helper()
	for num, call := range s.numbered(t) {
		l := num.of(&s.dev.attr, 0)
		for _, n := range []int{l.ceiling() + 1, 1<<28 + 1, 1<<30 + 1, math.MaxInt32 - 1, math.MaxInt32, 1 << 31,
			math.MaxUint32, 1<<32 + 1, math.MaxInt} {
			if n <= l.ceiling() {
				continue
			}
			err := call(n)
			le := allLimits(err)
			switch {
			case errors.Is(err, ErrNotSupported):
			case len(le) == 0 || le[0].What != num.what ||
				le[0].Asked != uint64(n) || le[0].Limit > uint64(l.ceiling()):
				t.Errorf("%s %#x: %v", num.what, n, err)
			}
		}
	}
}

// A library that ends with SIGABRT at each number beyond its limits survives.
func TestFake_NumbersOfTheTable(t *testing.T) {
	s := fakeSide(t, &CQOptions{DataPath: DataPathOps})
	set(t, "abort", 1)
	s.atLimits(t)
	unset(t, "abort")
	if n := numCQE.of(&s.dev.attr, 0).ceiling(); n != 65536 {
		t.Errorf("the ceiling is %d", n)
	}
}

func TestRXE_NumbersOfTheTable(t *testing.T) {
	testutil.NeedRXE(t)
	for _, path := range []DataPath{DataPathOps, DataPathAuto} {
		t.Run(path.String(), func(t *testing.T) {
			newSide(t, 0, &CQOptions{DataPath: path}).atLimits(t)
		})
	}
}
