package mlx5dv

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil/fakeverbs"
)

// expChild marks the process that has the library of MLNX_OFED 4.
const expChild = "PUREVERBS_TEST_EXP"

// TestExp creates QPs by the experimental verbs of a fake library of MLNX_OFED 4.9, which package ibv tests otherwise.
func TestExp(t *testing.T) {
	if os.Getenv(expChild) != "" {
		testExp(t)
		return
	}
	dir := t.TempDir()
	if _, err := fakeverbs.Build(dir, "../ibv/testdata/fakeverbs"); errors.Is(err, fakeverbs.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestExp$", "-test.v", "-test.count=1")
	c.Env = append(append(os.Environ(), fakeverbs.Env(dir)...), expChild+"=1",
		"FAKEVERBS=sz=432,comp_mask=0x4000000000000000,exp=1,exp.atomics=24,exp.big=16")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestExp") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// expSide is what QPs are made of.
type expSide struct {
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	srq *ibv.SRQ
}

func newExpSide(t *testing.T) *expSide {
	t.Helper()
	s := new(expSide)
	var errs [4]error
	s.dev, errs[0] = ibv.Open("fake0")
	s.pd, errs[1] = s.dev.AllocPD()
	s.cq, errs[2] = s.dev.CreateCQ(64, nil)
	s.srq, errs[3] = s.pd.CreateSRQ(nil)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.srq.Close(), s.cq.Close(), s.pd.Close(), s.dev.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func testExp(t *testing.T) {
	s := newExpSide(t)
	for _, typ := range []ibv.QPType{ibv.DCI, ibv.DCT, ibv.RC} {
		o := &QPOptions{QPOptions: ibv.QPOptions{Type: typ}}
		send, recv := s.cq, s.cq
		switch typ {
		case ibv.DCI:
			recv = nil
		case ibv.DCT:
			send, o.SRQ, o.DC = nil, s.srq, &DCOptions{AccessKey: 7}
		}
		qp, err := CreateQP(s.pd, send, recv, o)
		if err != nil {
			t.Fatal(err)
		}
		self, err := qp.Endpoint(1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := qp.Connect(self, nil); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
		if qp.Num() == 0 || qp.Type() != typ {
			t.Errorf("a %v is %v %#x", typ, qp.Type(), qp.Num())
		}
		if path, _ := qp.DataPath(); path != ibv.DataPathOps {
			t.Errorf("a %v has the data path %v", typ, path)
		}
		if err := ResetDCIStream(qp, 0); err == nil {
			t.Errorf("a stream of a %v was reset", typ)
		}
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
	for want, o := range map[string]*QPOptions{
		"OutOfOrderData": {Flags: OutOfOrderData},
		"streams":        {QPOptions: ibv.QPOptions{Type: ibv.DCI}, DC: &DCOptions{LogStreams: 2}},
	} {
		var u *ibv.UnsupportedError
		_, err := CreateQP(s.pd, s.cq, s.cq, o)
		if !errors.As(err, &u) || !strings.Contains(u.Feature, want) || u.Have != haveOFED4 {
			t.Errorf("%s: %v", want, err)
		}
	}
	testExpAtomics(t, s)
	var a *ibv.ArgError
	if _, err := CreateQP(s.pd, s.cq, s.cq, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCT}}); !errors.As(err, &a) {
		t.Errorf("a DCT without an SRQ: %v", err)
	}
}

func testExpAtomics(t *testing.T, s *expSide) {
	t.Helper()
	c, err := QueryMaskedAtomics(s.dev)
	if err != nil || *c != (MaskedAtomicCaps{Sizes: 8 | 16, BigEndian: 16, MaxInline: 32}) {
		t.Errorf("atomics with masks: %+v, %v", c, err)
	}
	qp, err := CreateQP(s.pd, s.cq, s.cq, &QPOptions{MaxAtomic: 16})
	if err != nil {
		t.Fatal(err)
	}
	if err := qp.Close(); err != nil {
		t.Error(err)
	}
	for want, o := range map[string]*QPOptions{
		"MaxAtomic is 12":  {MaxAtomic: 12},
		"type UD":          {MaxAtomic: 8, QPOptions: ibv.QPOptions{Type: ibv.UD}},
		"masks of 32":      {MaxAtomic: 32},
		"QueryMaskedAtomi": {MaxAtomic: 32, QPOptions: ibv.QPOptions{Type: ibv.DCI}},
	} {
		if _, err := CreateQP(s.pd, s.cq, s.cq, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
