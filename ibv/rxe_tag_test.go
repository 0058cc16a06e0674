package ibv

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// The SRQ is refused where nothing matches tags, and by libmlx5 on Ethernet: TestEmuTagMatching has the other half.
func TestRXE_TagMatchingRefused(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if rxe.IB {
		t.Skip("adapters on InfiniBand match tags: TestEmuTagMatching has that half")
	}
	s := &side{dev: closing(t, must(Open(rxe.Dev[0]))(t))}
	s.more(t, &CQOptions{Fields: FieldQPN, DataPath: DataPathOps})
	_, err := s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 1, MaxTagOps: 1})
	where := rxe.Dev[0] + " without it"
	if !soft(rxe) {
		where = "first port is Ethernet"
	}
	wantErr(t, err, ErrNotSupported, "tag matching", where, "in software")
}
