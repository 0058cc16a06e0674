// Package posts holds a table test of posting: every way to post a work request (PostSend, each method of Batch,
// Batch.Add, PostRecv of QPs and SRQs) with each opcode, transport, set of flags and kind of data, on both data paths,
// and on the ops path by ibv_wr_* too. A model of verbs, which shares no code with the library, computes the expected
// result of each row. The differences that are allowed between the data paths are listed with their reasons, and each
// must occur.
//
// The rows are a product. A run uses the rows of quick (see rows_test.go). A full run uses all rows, those with more
// than two mistakes on one kind of QP each. Its runs with PUREVERBS_DATAPATH=ops and direct have half of them each:
//
//	PUREVERBS_FULL=1    every row; make test-full, or with RUN=TestRXE_Posts
package posts
