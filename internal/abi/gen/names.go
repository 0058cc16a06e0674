package main

import (
	"slices"
	"strings"
)

// capitals are the words of C names that Go writes in capitals. words are those with a spelling of their own.
var (
	capitals = strings.Fields("aes ah ahn ai av bf bg bw cm cpu cq cqe cqn crc cvlan dc dci dct dgid dlid dm ece " +
		"esp fa fd fs ft fw gid grh guid hca hw ib ic icm icv id iova iv kek lag lid lmc mac " +
		"mr mtu mw ns odp ooo pd pdn ph ps psn qp qpg qpn rc rdma rnr rq rqn rss rwq sg sge " +
		"sgid sib sid sl slid sm spi sq sqn srq srqn sw td tfc tir tirn tisn tm tos tph ts " +
		"tso ttl uar uc ud uid va vl vlan wc wq wqe wr xrc xrcd")
	words = map[string]string{"bfregs": "BFRegs", "dbrec": "DBRec", "deks": "DEKs", "devx": "DevX", "fds": "FDs",
		"hwclock": "HWClock", "klms": "KLMs", "lkey": "LKey", "oflags": "OFlags", "pkey": "PKey", "qkey": "QKey",
		"qpts": "QPTs", "rkey": "RKey", "tclass": "TClass", "wrs": "WRs"}
)

// goName is the name of a C field in Go.
func (e *entry) goName(field string) string {
	if s := e.special[field]; s.name != "" {
		return s.name
	}
	var b strings.Builder
	for _, w := range strings.Split(field[strings.LastIndex(field, ".")+1:], "_") {
		switch {
		case words[w] != "":
			b.WriteString(words[w])
		case slices.Contains(capitals, w):
			b.WriteString(strings.ToUpper(w))
		case w != "":
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return b.String()
}
