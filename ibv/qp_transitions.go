package ibv

import (
	"maps"
	"strings"
)

// attrs are the attributes of one transition, without MaskState, which every transition
// requires.
type attrs struct{ required, optional QPAttrMask }

// step is a transition between two states.
type step struct{ from, to QPState }

const (
	initOpt   = MaskPKeyIndex | MaskPort
	connAV    = MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN
	sqdTiming = MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxQPRdAtomic
)

// transitions are the rows of the InfiniBand specification's table of queue pair attributes
// (chapter 11, "Modify Queue Pair"), as Linux enforces them. Not listed: any state may go to
// Reset, and any state but Reset to Err, without attributes; a DCT may not. RC and XRC have no SQE.
var transitions = map[QPType]map[step]attrs{
	RC: {
		{StateReset, StateInit}: {initOpt | MaskAccessFlags, 0},
		{StateInit, StateInit}:  {0, initOpt | MaskAccessFlags},
		{StateInit, StateRTR}: {connAV | MaskMaxDestRdAtomic | MaskMinRNRTimer, MaskAltPath | MaskAccessFlags |
			MaskPKeyIndex},
		{StateRTR, StateRTS}: {MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskSQPSN | MaskMaxQPRdAtomic,
			MaskCurState | MaskAltPath | MaskAccessFlags | MaskMinRNRTimer | MaskPathMigState},
		{StateRTS, StateRTS}: {0, MaskCurState | MaskAccessFlags | MaskAltPath | MaskPathMigState | MaskMinRNRTimer},
		{StateRTS, StateSQD}: {0, MaskEnSQDAsyncNotify},
		{StateSQD, StateRTS}: {0, MaskCurState | MaskAltPath | MaskAccessFlags | MaskMinRNRTimer | MaskPathMigState},
		{StateSQD, StateSQD}: {0, MaskPort | MaskAV | sqdTiming | MaskMaxDestRdAtomic | MaskAltPath | MaskAccessFlags |
			MaskPKeyIndex | MaskMinRNRTimer | MaskPathMigState},
	},
	UC: {
		{StateReset, StateInit}: {initOpt | MaskAccessFlags, 0},
		{StateInit, StateInit}:  {0, initOpt | MaskAccessFlags},
		{StateInit, StateRTR}:   {connAV, MaskAltPath | MaskAccessFlags | MaskPKeyIndex},
		{StateRTR, StateRTS}:    {MaskSQPSN, MaskCurState | MaskAltPath | MaskAccessFlags | MaskPathMigState},
		{StateRTS, StateRTS}:    {0, MaskCurState | MaskAccessFlags | MaskAltPath | MaskPathMigState},
		{StateRTS, StateSQD}:    {0, MaskEnSQDAsyncNotify},
		{StateSQD, StateRTS}:    {0, MaskCurState | MaskAltPath | MaskAccessFlags | MaskPathMigState},
		{StateSQD, StateSQD}:    {0, MaskAV | MaskAltPath | MaskAccessFlags | MaskPKeyIndex | MaskPathMigState},
		{StateSQE, StateRTS}:    {0, MaskCurState | MaskAccessFlags},
	},
	UD:  udSteps,
	SRD: srdSteps,
	DCI: dciSteps,
	DCT: dctSteps,
	RawPacket: {
		{StateReset, StateInit}: {MaskPort, 0},
		{StateInit, StateInit}:  {0, 0},
		{StateInit, StateRTR}:   {0, 0},
		{StateRTR, StateRTS}:    {0, MaskRateLimit},
		{StateRTS, StateRTS}:    {0, MaskRateLimit},
		{StateRTS, StateSQD}:    {0, 0},
		{StateSQD, StateRTS}:    {0, 0},
		{StateSQD, StateSQD}:    {0, 0},
		{StateSQE, StateRTS}:    {0, 0},
	},
	XRCSend: {
		{StateReset, StateInit}: {initOpt | MaskAccessFlags, 0},
		{StateInit, StateInit}:  {0, initOpt | MaskAccessFlags},
		{StateInit, StateRTR}:   {connAV, MaskAltPath | MaskAccessFlags | MaskPKeyIndex},
		{StateRTR, StateRTS}: {MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskSQPSN | MaskMaxQPRdAtomic,
			MaskCurState | MaskAltPath | MaskAccessFlags | MaskPathMigState},
		{StateRTS, StateRTS}: {0, MaskCurState | MaskAccessFlags | MaskAltPath | MaskPathMigState},
		{StateRTS, StateSQD}: {0, MaskEnSQDAsyncNotify},
		{StateSQD, StateRTS}: {0, MaskCurState | MaskAltPath | MaskAccessFlags | MaskPathMigState},
		{StateSQD, StateSQD}: {0, MaskPort | MaskAV | sqdTiming | MaskAltPath | MaskAccessFlags | MaskPKeyIndex |
			MaskPathMigState},
	},
	XRCRecv: {
		{StateReset, StateInit}: {initOpt | MaskAccessFlags, 0},
		{StateInit, StateInit}:  {0, initOpt | MaskAccessFlags},
		{StateInit, StateRTR}: {connAV | MaskMaxDestRdAtomic | MaskMinRNRTimer, MaskAltPath | MaskAccessFlags |
			MaskPKeyIndex},
		{StateRTR, StateRTS}: {MaskTimeout | MaskSQPSN, MaskCurState | MaskAltPath | MaskAccessFlags |
			MaskMinRNRTimer | MaskPathMigState},
		{StateRTS, StateRTS}: {0, MaskCurState | MaskAccessFlags | MaskAltPath | MaskPathMigState | MaskMinRNRTimer},
		{StateRTS, StateSQD}: {0, MaskEnSQDAsyncNotify},
		{StateSQD, StateRTS}: {0, MaskCurState | MaskAltPath | MaskAccessFlags | MaskMinRNRTimer | MaskPathMigState},
		{StateSQD, StateSQD}: {0, MaskPort | MaskAV | MaskTimeout | MaskMaxDestRdAtomic | MaskAltPath |
			MaskAccessFlags |
			MaskPKeyIndex | MaskMinRNRTimer | MaskPathMigState},
	},
}

var udSteps = map[step]attrs{
	{StateReset, StateInit}: {initOpt | MaskQKey, 0},
	{StateInit, StateInit}:  {0, initOpt | MaskQKey},
	{StateInit, StateRTR}:   {0, MaskPKeyIndex | MaskQKey},
	{StateRTR, StateRTS}:    {MaskSQPSN, MaskCurState | MaskQKey},
	{StateRTS, StateRTS}:    {0, MaskCurState | MaskQKey},
	{StateRTS, StateSQD}:    {0, MaskEnSQDAsyncNotify},
	{StateSQD, StateRTS}:    {0, MaskCurState | MaskQKey},
	{StateSQD, StateSQD}:    {0, MaskPKeyIndex | MaskQKey},
	{StateSQE, StateRTS}:    {0, MaskCurState | MaskQKey},
}

// hasTransitions reports whether there is a table for t. Vendor-defined types have none.
func hasTransitions(t QPType) bool { return transitions[t] != nil }

func lookupTransition(t QPType, from, to QPState) (attrs, bool) {
	rows := transitions[t]
	if rows == nil || from > StateErr {
		return attrs{}, false
	}
	if (to == StateReset || to == StateErr && from != StateReset) && t != DCT {
		return attrs{}, true
	}
	a, ok := rows[step{from, to}]
	return a, ok
}

// RequiredAttrs returns the attributes that Modify needs to bring a QP of type t from one state
// to another, and those that it may also take. ok is false if there is no such transition, or
// no table for the type (Driver). The tables follow the InfiniBand specification as Linux
// enforces it; drivers may differ.
func RequiredAttrs(t QPType, from, to QPState) (required, optional QPAttrMask, ok bool) {
	a, ok := lookupTransition(t, from, to)
	if !ok {
		return 0, 0, false
	}
	if from == to {
		// Without MaskState the state does not change.
		return a.required, a.optional | MaskState, true
	}
	return a.required | MaskState, a.optional, true
}

// checkTransition compares the attributes of a Modify with the tables. Kernels differ, so it
// only explains refusals and never causes one. For a type without a table everything is legal.
func checkTransition(t QPType, from, to QPState, mask QPAttrMask) (missing, superfluous QPAttrMask, legal bool) {
	if !hasTransitions(t) {
		return 0, 0, true
	}
	required, optional, ok := RequiredAttrs(t, from, to)
	if !ok {
		return 0, 0, false
	}
	return required &^ mask, mask &^ (required | optional), true
}

// nextStates lists the states that a QP can move to, for an error.
func nextStates(t QPType, from QPState) string {
	var list []string
	for to := StateReset; to <= StateErr; to++ {
		if _, ok := lookupTransition(t, from, to); ok && to != from {
			list = append(list, to.String())
		}
	}
	if list == nil {
		return "no known state"
	}
	return strings.Join(list, ", ")
}

var (
	dciSteps = map[step]attrs{
		{StateReset, StateInit}: {initOpt, 0},
		{StateInit, StateInit}:  {0, initOpt},
		{StateInit, StateRTR}:   {MaskPathMTU, MaskPKeyIndex | MaskAV},
		{StateRTR, StateRTS}: {MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxQPRdAtomic | MaskSQPSN,
			MaskMinRNRTimer},
		{StateRTS, StateRTS}: {0, MaskMinRNRTimer},
	}
	dctSteps = map[step]attrs{
		{StateReset, StateInit}: {initOpt | MaskAccessFlags, 0},
		{StateInit, StateRTR}:   {MaskPathMTU | MaskAV | MaskMinRNRTimer, 0},
	}
)

// srdSteps are those of the kernel's EFA driver: UD's, and the RNR retry.
var srdSteps = func() map[step]attrs {
	m := maps.Clone(udSteps)
	a := m[step{StateRTR, StateRTS}]
	a.optional |= MaskRNRRetry
	m[step{StateRTR, StateRTS}] = a
	return m
}()
