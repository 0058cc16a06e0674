//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// tagCount is a program that says that it has handled more unexpected messages than there were.
func (s *checks) tagCount(qp *hca.QP, w *wqe, handled, were uint16) {
	s.violateQP(qp, RuleTagCount, ", WQE "+u(uint32(w.idx))+": "+u(uint32(handled))+" of "+u(uint32(were))+
		" unexpected messages")
}

// tagList is a tag that is added where one is, or that leads out of the list.
func (s *checks) tagList(qp *hca.QP, w *wqe, at uint16) {
	s.violateQP(qp, RuleTagList, ", WQE "+u(uint32(w.idx))+": place "+u(uint32(at)))
}
