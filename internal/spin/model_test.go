package spin

import (
	"fmt"
	"testing"
)

// A model of owner.go: goroutines lock and unlock a few times each, in all orders of their steps. Each access to shared
// memory is a step. A plain store goes into the goroutine's store buffer, as on x86, and reaches memory in a later
// step. A locked instruction waits until the buffer is empty. A barrier empties the others' buffers one by one.

// Addresses of the model's memory. counter is what the lock guards.
const (
	aOwner = iota
	aFlag0
	_
	_
	aFlag
	aOwners
	aStreak
	aLast
	aLatest
	aWaiting
	aCounter
	addresses
)

const (
	modelActors = 3
	modelFlags  = 2
)

// Program counters, named after the next step.
const (
	pIdle = iota
	pOwner
	pHeld
	pEnter
	pAgain
	pUndo
	pSwap
	pCount
	pOwn
	pOwnFlag
	pOwnEnter
	pOwnOwner
	pOwnDone
	pWait
	pClaim
	pClaimFlag
	pClaimOwner
	pClaimEnd
	pClaimBarrier
	pClaimHeld
	pClaimed
	pWaitDone
	pGiveUp
	pLoad
	pStore
	pUnlock
	pRelease
	pDone
)

// holding are the steps during which a goroutine holds the lock.
var holding = map[uint8]bool{pCount: true, pOwn: true, pOwnFlag: true, pOwnEnter: true, pOwnOwner: true, pOwnDone: true,
	pClaimed: true, pWaitDone: true, pLoad: true, pStore: true, pUnlock: true, pRelease: true}

type modelStore struct{ addr, val uint8 }

type modelActor struct {
	pc, f, r, k  uint8
	rounds, took uint8
	stores       uint8 // in buf
	buf          [6]modelStore
}

type modelState struct {
	mem    [addresses]uint8
	actors [modelActors]modelActor
}

// modelRun describes a run of the model, with faults that are in it on purpose.
type modelRun struct {
	rounds [modelActors]uint8
	try    [modelActors]bool // it uses TryLock
	enough uint8
	owned  bool // by the first, at the start

	noBarrier, oneFlag, noSecondLook, pastOwner bool
}

func (s *modelState) load(a, addr uint8) uint8 {
	p := &s.actors[a]
	for i := int(p.stores) - 1; i >= 0; i-- {
		if p.buf[i].addr == addr {
			return p.buf[i].val
		}
	}
	return s.mem[addr]
}

func (s *modelState) store(a, addr, val uint8) {
	p := &s.actors[a]
	p.buf[p.stores] = modelStore{addr, val}
	p.stores++
}

// drain moves the oldest store from the buffer to memory.
func (s *modelState) drain(a uint8) {
	p := &s.actors[a]
	s.mem[p.buf[0].addr] = p.buf[0].val
	copy(p.buf[:], p.buf[1:])
	p.buf[len(p.buf)-1] = modelStore{}
	p.stores--
}

// step executes the next step of a and reports whether it could: a locked instruction waits for an empty buffer, a
// store for room in it.
func (m *modelRun) step(s *modelState, a uint8) bool {
	p := &s.actors[a]
	me := (a + 1) << 2
	locked := func() bool { return p.stores == 0 }
	if p.stores > 2 {
		return false
	}
	busy := uint8(pWait)
	switch p.pc {
	case pIdle:
		p.f, p.r, p.k = 0, 0, 0
		if p.rounds == 0 {
			p.pc = pDone
			return true
		}
		p.rounds--
		p.pc = pOwner
	case pOwner:
		p.pc = pSwap
		if o := s.load(a, aOwner); o&^3 == me {
			p.f, p.pc = o&3, pHeld
		}
	case pHeld:
		p.pc = pEnter
		if s.load(a, aFlag0+p.f) != 0 {
			p.pc = busy
		}
	case pEnter:
		s.store(a, aFlag0+p.f, 1)
		p.pc = pAgain
	case pAgain:
		p.pc = pUndo
		if s.load(a, aOwner) == me|p.f || m.noSecondLook {
			p.pc = pLoad
		}
	case pUndo:
		s.store(a, aFlag0+p.f, 0)
		p.pc = busy
	case pSwap:
		if !locked() {
			return false
		}
		p.pc = busy
		if s.mem[aFlag0] == 0 {
			s.mem[aFlag0], p.pc = 1, pCount
		}
	case pCount: // of what the holder alone sees, in a step
		p.pc = pLoad
		streak := uint8(0)
		if s.load(a, aLast) == me {
			streak = s.load(a, aStreak) + 1
		} else {
			s.store(a, aLast, me)
		}
		if streak >= m.enough {
			streak, p.pc = 0, pOwn
		}
		s.store(a, aStreak, streak)
	case pOwn:
		if !locked() {
			return false
		}
		p.pc = pLoad
		if (s.load(a, aLatest) == me || s.load(a, aOwners) < modelFlags || m.oneFlag) && s.mem[aWaiting] == 0 {
			s.mem[aWaiting], p.pc = me, pOwnFlag
		}
	case pOwnFlag:
		p.f = s.load(a, aOwners)
		if s.load(a, aLatest) != me {
			if p.f++; m.oneFlag {
				p.f = 1
			}
			s.store(a, aLatest, me)
			s.store(a, aOwners, p.f)
		}
		s.store(a, aFlag, p.f)
		p.pc = pOwnEnter
	case pOwnEnter:
		if !locked() {
			return false
		}
		s.mem[aFlag0+p.f] = 1
		p.pc = pOwnOwner
	case pOwnOwner:
		if !locked() {
			return false
		}
		s.mem[aOwner] = me | p.f
		p.pc = pOwnDone
	case pOwnDone:
		if !locked() {
			return false
		}
		s.mem[aWaiting] = 0
		p.pc = pLoad
	case pWait:
		if !locked() {
			return false
		}
		if s.mem[aWaiting] != 0 {
			if !m.try[a] {
				return false
			}
			p.pc = pIdle
			break
		}
		s.mem[aWaiting] = me
		p.pc = pClaim
	case pClaim:
		if !locked() {
			return false
		}
		p.pc = pClaimFlag
		if s.mem[aFlag0] == 0 {
			s.mem[aFlag0] = 1
			s.store(a, aStreak, 0)
			p.pc = pWaitDone
		}
	case pClaimFlag:
		if p.f = s.load(a, aFlag); p.f != 0 {
			p.pc = pClaimOwner
		} else {
			p.pc = m.again(a)
		}
	case pClaimOwner:
		p.pc = pClaimEnd
		if s.load(a, aOwner) == 0 || m.pastOwner {
			p.pc = pClaimHeld
		}
	case pClaimEnd:
		if !locked() {
			return false
		}
		s.mem[aOwner] = 0
		p.pc = pClaimBarrier
		if m.noBarrier {
			p.pc = pClaimHeld
		}
	case pClaimBarrier:
		for s.actors[p.k].stores > 0 {
			s.drain(p.k)
		}
		if p.k++; p.k == modelActors {
			p.k, p.pc = 0, pClaimHeld
		}
	case pClaimHeld:
		p.pc = pClaimed
		if s.load(a, aFlag0+p.f) != 0 {
			p.pc = m.again(a)
		}
	case pClaimed:
		s.store(a, aFlag, 0)
		s.store(a, aStreak, 0)
		p.pc = pWaitDone
	case pWaitDone, pGiveUp:
		if !locked() {
			return false
		}
		s.mem[aWaiting] = 0
		if p.pc == pWaitDone {
			p.pc = pLoad
		} else {
			p.pc = pIdle
		}
	case pLoad:
		p.r, p.f = s.load(a, aCounter), 0
		p.took++
		p.pc = pStore
	case pStore:
		s.store(a, aCounter, p.r+1)
		p.pc = pUnlock
	case pUnlock:
		p.f = s.load(a, aFlag)
		p.pc = pRelease
	case pRelease:
		s.store(a, aFlag0+p.f, 0)
		p.pc = pIdle
	case pDone:
		return false
	}
	return true
}

// again continues after a look at a lock that is held: with another look, or for TryLock with none.
func (m *modelRun) again(a uint8) uint8 {
	if m.try[a] {
		return pGiveUp
	}
	return pClaim
}

// wrong describes a violation in s, "" if there is none.
func (s *modelState) wrong() string {
	in, done, took := 0, 0, uint8(0)
	for _, p := range s.actors {
		if holding[p.pc] {
			in++
		}
		if p.pc == pDone && p.stores == 0 {
			done++
		}
		took += p.took
	}
	switch {
	case in > 1:
		return "two hold the lock"
	case done == modelActors && s.mem[aCounter] != took:
		return fmt.Sprintf("the counter is %d after %d holders", s.mem[aCounter], took)
	}
	return ""
}

// explore visits all states. It returns their number, how often an owner locked without a locked instruction, and the
// first violation, or "".
func (m *modelRun) explore() (states, entered int, wrong string) {
	var first modelState
	for a := range first.actors {
		first.actors[a].rounds = m.rounds[a]
	}
	if m.owned {
		first.mem[aOwner], first.mem[aFlag0], first.mem[aFlag], first.mem[aOwners] = 1<<2|1, 1, 1, 1
		first.mem[aLast], first.mem[aLatest] = 1<<2, 1<<2
	}
	number := map[modelState]int32{first: 0}
	list := []modelState{first}
	before := [][]int32{nil} // the states that each can come from
	var ends []int32
	for i := 0; i < len(list); i++ {
		if w := list[i].wrong(); w != "" {
			return len(list), entered, w
		}
		moves := 0
		add := func(s modelState) {
			moves++
			n, ok := number[s]
			if !ok {
				n = int32(len(list))
				number[s] = n
				list = append(list, s)
				before = append(before, nil)
			}
			before[n] = append(before[n], int32(i))
		}
		for a := range uint8(modelActors) {
			if s := list[i]; m.step(&s, a) {
				if list[i].actors[a].pc == pAgain && s.actors[a].pc == pLoad {
					entered++
				}
				add(s)
			}
			if s := list[i]; s.actors[a].stores > 0 {
				s.drain(a)
				add(s)
			}
		}
		if moves == 0 {
			for _, p := range list[i].actors {
				if p.pc != pDone {
					return len(list), entered, fmt.Sprintf("nobody can go on: %+v", list[i])
				}
			}
			ends = append(ends, int32(i))
		}
	}
	// An end can be reached from everywhere.
	seen := make([]bool, len(list))
	for len(ends) > 0 {
		n := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !seen[n] {
			seen[n] = true
			ends = append(ends, before[n]...)
		}
	}
	for i, ok := range seen {
		if !ok {
			return len(list), entered, fmt.Sprintf("no way to an end: %+v", list[i])
		}
	}
	return len(list), entered, ""
}

func TestModel(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  modelRun
		want string // a part of what is wrong
	}{
		{"all may own", modelRun{rounds: [3]uint8{2, 2, 1}}, ""},
		{"second time", modelRun{rounds: [3]uint8{3, 1, 1}, enough: 1}, ""},
		{"owned", modelRun{rounds: [3]uint8{2, 2, 1}, owned: true}, ""},
		{"try", modelRun{rounds: [3]uint8{2, 2, 1}, try: [3]bool{false, true, true}, owned: true}, ""},
		{"owner tries", modelRun{rounds: [3]uint8{2, 2, 1}, try: [3]bool{true, false, true}, owned: true}, ""},
		{"without barrier", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, noBarrier: true}, "two hold"},
		{"without second look", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, noSecondLook: true}, "two hold"},
		{"owner stays", modelRun{rounds: [3]uint8{1, 1, 0}, owned: true, pastOwner: true}, "two hold"},
		{"one flag for all", modelRun{rounds: [3]uint8{1, 2, 1}, owned: true, oneFlag: true}, "two hold"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states, entered, wrong := tt.run.explore()
			t.Logf("%d states, %d entries of owners; %s", states, entered, wrong)
			if tt.want == "" && (wrong != "" || entered == 0) {
				t.Errorf("wrong: %s", wrong)
			}
			if tt.want != "" && (len(wrong) < len(tt.want) || wrong[:len(tt.want)] != tt.want) {
				t.Errorf("wrong: %q, want %q", wrong, tt.want)
			}
		})
	}
}
