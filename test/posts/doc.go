// Package posts holds a table test of posting: every way to post a work request,
// PostSend, each method of Batch, Batch.Add, PostRecv of QPs and SRQs, with each
// opcode, transport, set of flags and kind of data, on both data paths. What has
// to come of a row is computed by a model of what verbs say, which knows nothing
// of the code that it judges; differences between the data paths that may be are
// listed with their reasons, and each must occur.
//
// The rows are a product. A run takes those of quick (see rows_test.go), a full
// one all, those with more than two mistakes on one kind of QP each:
//
//	PUREVERBS_FULL=1    every row; make test-full, or with RUN=TestRXE_Posts
package posts
