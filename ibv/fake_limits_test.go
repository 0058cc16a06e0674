package ibv

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every number that C takes in fewer bits than Go is refused where it would
// become another, and says the limit.
func TestFake_NumbersThatCCuts(t *testing.T) {
	s := fakeSide(t, &CQOptions{DataPath: DataPathOps})
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	qp := s.newQP(t, nil)
	cq := func(n int, o CQOptions) error { return closed(s.dev.CreateCQ(n, &o)) }
	qpOf := func(o QPOptions) error { return closed(s.pd.CreateQP(s.cq, s.cq, &o)) }
	srqOf := func(o SRQOptions) error { return closed(s.pd.CreateSRQ(&o)) }
	for _, c := range []struct {
		name  string
		limit uint64
		call  func(n int) error
	}{
		{"cqe", 65536, func(n int) error { return cq(n, CQOptions{}) }},
		{"cqe", 65536, func(n int) error { return cq(n, CQOptions{SingleThreaded: true}) }},
		{"cqe", 65536, s.cq.Resize},
		{"cq_count", 65535, func(n int) error { return s.cq.Moderate(n, time.Microsecond) }},
		{"comp_vector", 1, func(n int) error { return cq(1, CQOptions{CompVector: n}) }},
		{"max_send_wr", 4096, func(n int) error { return qpOf(QPOptions{MaxSendWR: n}) }},
		{"max_recv_wr", 4096, func(n int) error { return qpOf(QPOptions{MaxRecvWR: n}) }},
		{"max_send_sge", 16, func(n int) error { return qpOf(QPOptions{MaxSendSGE: n}) }},
		{"max_recv_sge", 16, func(n int) error { return qpOf(QPOptions{MaxRecvSGE: n}) }},
		{"max_inline_data", 512, func(n int) error { return qpOf(QPOptions{MaxInline: n}) }},
		{"max_wr", 4096, func(n int) error { return srqOf(SRQOptions{MaxWR: n}) }},
		{"max_sge", 16, func(n int) error { return srqOf(SRQOptions{MaxSGE: n}) }},
		{"limit", 128, srq.SetLimit},
		{"max_wr", 4096, srq.Resize},
		{"gid index", 7, func(n int) error { _, err := s.dev.QueryGID(1, n); return err }},
		{"gid index", 7, func(n int) error { _, err := s.dev.QueryGIDEntry(1, n); return err }},
		{"gid index", 7, func(n int) error { _, err := qp.Endpoint(1, n); return err }},
		{"pkey index", 0, func(n int) error { _, err := s.dev.QueryPKey(1, n); return err }},
	} {
		for _, n := range []int{1<<32 + 1, 1<<32 + 8, 1 << 32, 1 << 31, math.MaxInt, math.MaxUint32} {
			err := c.call(n)
			var le *LimitError
			if !errors.As(err, &le) || le.What != c.name || le.Asked != uint64(n) || le.Limit != c.limit {
				t.Errorf("%s %#x: %v, want a *LimitError with the limit %d", c.name, n, err, c.limit)
			}
			wantErr(t, err, syscall.EINVAL)
		}
		for _, n := range []int{-2, -5, math.MinInt32, math.MinInt} {
			var ae *ArgError
			if err := c.call(n); !errors.As(err, &ae) || !strings.HasPrefix(ae.Got, "-") {
				t.Errorf("%s %d: %v, want an *ArgError", c.name, n, err)
			}
		}
	}
	// What is too large by itself is refused below, with the same words.
	for what, err := range map[string]error{
		"gid index 8 exceeds the limit of fake0/1 (7)":  second(s.dev.QueryGID(1, 8)),
		"gid index 9 exceeds the limit of fake0/1 (7)":  second(s.dev.QueryGIDEntry(1, 9)),
		"pkey index 1 exceeds the limit of fake0/1 (0)": second(s.dev.QueryPKey(1, 1)),
	} {
		wantErr(t, err, syscall.EINVAL, what)
	}
}

func second[T any](_ T, err error) error { return err }

// closed closes what should not have been made.
func closed[T interface{ Close() error }](v T, err error) error {
	if err == nil {
		err = v.Close()
	}
	return err
}

// A library that reckons with 32 bits grants less than was asked for, and says
// nothing: libmlx5 with max_recv_sge 1<<28+1.
func TestFake_OverflowInTheLibrary(t *testing.T) {
	s := fakeSide(t, nil)
	set(t, "overflow", 1)
	for what, err := range map[string]error{
		"max_recv_sge 268435457":     closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxRecvSGE: 1<<28 + 1})),
		"max_inline_data 2147483647": closed(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxInline: math.MaxInt32})),
		"max_wr 5000":                closed(s.pd.CreateSRQ(&SRQOptions{MaxWR: 5000})),
		"cqe 70000":                  closed(s.dev.CreateCQ(70000, nil)),
	} {
		wantErr(t, err, syscall.EINVAL, what+" exceeds the limit of fake0")
	}
	// Less than was asked within the limits is an answer: Cap tells it.
	qp := closing(t, must(s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxInline: 64}))(t))
	if c := qp.Cap(); c.MaxInline != 1 {
		t.Errorf("granted %+v", c)
	}
}

// With no room for inline data libmlx5 tells a negative number of bytes.
func TestFake_NegativeGrant(t *testing.T) {
	s := fakeSide(t, &CQOptions{DataPath: DataPathOps})
	set(t, "grant.inline", -4)
	qp := s.newQP(t, &QPOptions{MaxSendSGE: None})
	if c := qp.Cap(); c.MaxInline != 0 || c.MaxSendSGE != 0 {
		t.Errorf("granted %+v", c)
	}
	ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
	_, err := qp.PostSend([]SendWR{{Opcode: OpWrite, Inline: make([]byte, 1), Remote: s.mr.Remote().At(0)}})
	wantErr(t, err, syscall.EINVAL, "inline")
}

// Cap, the bound of SetLimit and the queue itself follow Resize.
func TestFake_ResizeSRQ(t *testing.T) {
	s := fakeSide(t, &CQOptions{DataPath: DataPathOps})
	srq := closing(t, must(s.pd.CreateSRQ(&SRQOptions{MaxWR: 16}))(t))
	wantErr(t, srq.SetLimit(17), syscall.EINVAL, "limit 17", "(16)")
	posted := must(srq.PostRecv(make([]RecvWR, 16)))(t)
	ok(t, srq.Resize(50))
	if wr, sge := srq.Cap().MaxWR, srq.Cap().MaxSGE; wr != 64 || sge != 1 {
		t.Errorf("resized to 50: %d of %d", wr, sge)
	}
	ok(t, srq.SetLimit(64))
	wantErr(t, srq.SetLimit(65), syscall.EINVAL, "limit 65", "(64)")
	if n, err := srq.PostRecv(make([]RecvWR, 60)); posted+n != 64 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("posted %d and %d: %v", posted, n, err)
	}
	// A refusal changes nothing.
	wantErr(t, srq.Resize(5000), syscall.EINVAL, "max_wr 5000", "(4096)")
	wantErr(t, srq.Resize(1), syscall.EINVAL)
	wantErr(t, srq.Resize(0), syscall.EINVAL, "1 to 4096")
	if wr := srq.Cap().MaxWR; wr != 64 {
		t.Errorf("%d after a refusal", wr)
	}
	// Where the new size cannot be read it is what was asked.
	failing(t, "ibv_query_srq", syscall.EIO)
	ok(t, srq.Resize(100))
	if wr := srq.Cap().MaxWR; wr != 100 {
		t.Errorf("resized to 100: %d", wr)
	}
}
