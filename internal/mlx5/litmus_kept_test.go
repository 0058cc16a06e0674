package mlx5

import (
	"reflect"

	"github.com/pureverbs/pureverbs/internal/spin"
)

// kept counts functions that are inlined in all of their callers, so that the test's binary has them, for TestLitmus.
//
//lint:ignore U1000 only the linker sees it
var kept = reflect.ValueOf([]any{(*CQ).consume, (*CQ).moveTo, (*CQ).Arm, (*CQ).Empty, (*CQ).Hide, (*CQ).tail,
	(*CQ).ready, (*SQ).Ring, (*SQ).commit, (*SQ).room, (*RQ).ring, (*RQ).room, (*RQ).complete, (*SRQ).ring,
	(*QP).publish, (*spin.Lock).Unlock, (*spin.Lock).Lock}).Len()
