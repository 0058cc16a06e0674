package ibv

import (
	"errors"
	"syscall"
	"testing"
)

func fakeTags(t *testing.T) (*side, *SRQ) {
	t.Helper()
	set(t, "tm_caps.max_tags", 64)
	set(t, "tm_caps.max_ops", 16)
	s := fakeSide(t, nil)
	opt := &SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 60, MaxTagOps: 15, MaxSGE: 2}
	srq := closing(t, must(s.pd.CreateSRQ(opt))(t))
	if get(t, "tm.tags") != 60 || get(t, "tm.ops") != 15 || srq.Type() != SRQTM {
		t.Errorf("%d tags, %d operations, type %v", get(t, "tm.tags"), get(t, "tm.ops"), srq.Type())
	}
	return s, srq
}

// The fake library returns in a completion what it was given.
func TestFake_TagOps(t *testing.T) {
	s, srq := fakeTags(t)
	ops := []TagOp{
		{ID: 1, Opcode: TagAdd, Signaled: true, RecvID: 77, Tag: 0xabcd, Mask: 0xff0, Unexpected: 3, Sync: true,
			SGEs: []SGE{s.mr.SGE(0, 100), s.mr.SGE(100, 1)}},
		{ID: 2, Opcode: TagAdd},
		{ID: 3, Opcode: TagDel, Signaled: true, Handle: 99},
		{ID: 4, Opcode: TagSync, Signaled: true, Unexpected: 5},
	}
	if n, err := srq.PostTagOps(ops); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if ops[0].Handle == 0 || ops[1].Handle != ops[0].Handle+1 {
		t.Errorf("handles %d and %d", ops[0].Handle, ops[1].Handle)
	}
	for _, want := range []WC{
		{ID: 1, Opcode: WCTMAdd, ByteLen: 100, SrcQPN: 77, VendorErr: 3},
		{ID: 3, Opcode: WCTMDel, ByteLen: 99, VendorErr: 1},
		{ID: 4, Opcode: WCTMSync, ByteLen: 5, VendorErr: 3},
	} {
		wc := s.good(t, want.ID)
		if wc.Opcode != want.Opcode || wc.ByteLen != want.ByteLen || wc.SrcQPN != want.SrcQPN ||
			wc.VendorErr != want.VendorErr {
			t.Errorf("%+v, want %+v", wc, want)
		}
	}
	if n, err := srq.PostTagOps(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestFake_TagOpsRefused(t *testing.T) {
	s, srq := fakeTags(t)
	sync := TagOp{Opcode: TagSync}
	for _, c := range []struct {
		op   TagOp
		want string
	}{
		{TagOp{Opcode: 3}, "TagOpcode(3)"},
		{TagOp{Opcode: TagDel, SGEs: make([]SGE, 1)}, "nothing with TagDel"},
		{TagOp{SGEs: make([]SGE, 3)}, "sge"},
		{TagOp{SGEs: []SGE{{Length: 1 << 31}}}, "sge 0"},
	} {
		n, err := srq.PostTagOps([]TagOp{sync, c.op, sync})
		if n != 1 {
			t.Errorf("%d accepted", n)
		}
		wantErr(t, err, syscall.EINVAL, c.want, "operation 1")
	}
	set(t, "post.at", 2)
	for errno, want := range map[syscall.Errno]error{syscall.ENOMEM: ErrQueueFull, syscall.EIO: syscall.EIO} {
		set(t, "post.errno", int(errno))
		if n, err := srq.PostTagOps([]TagOp{sync, sync, sync}); n != 1 || !errors.Is(err, want) {
			t.Errorf("%v: %d accepted, %v", errno, n, err)
		}
	}
	for _, o := range []SRQOptions{{MaxTagOps: 1}, {MaxTags: 1}, {MaxTags: 65, MaxTagOps: 1},
		{MaxTags: 1, MaxTagOps: 17}, {MaxTags: -1, MaxTagOps: 1}} {
		o.Type, o.CQ = SRQTM, s.cq
		_, err := s.pd.CreateSRQ(&o)
		wantErr(t, err, syscall.EINVAL, "max_")
	}
	gone := must(s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 1, MaxTagOps: 1}))(t)
	ok(t, gone.Close())
	_, err := gone.PostTagOps([]TagOp{sync})
	wantErr(t, err, ErrClosed)
}

// A device without tag matching says so before the library is asked; a library without the op, when it is needed.
func TestFake_TagsMissing(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 1, MaxTagOps: 1})
	wantErr(t, err, ErrNotSupported, "tag matching", "in software")
	set(t, "null.post_srq_ops", 1)
	_, srq := fakeTags(t)
	_, err = srq.PostTagOps(make([]TagOp, 1))
	wantErr(t, err, ErrNotSupported, "tag matching")
}
