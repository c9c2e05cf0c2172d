/* SPDX-License-Identifier: MIT */
/* Generated files: rendered once per open, then served by offset, so that a `cat` sees one moment.
 */
#pragma once

#include "fs/inode.h"

/* Answers an open with the text in b, which it takes (and empties). */
void text_reply_open(fuse_req_t req, struct buf *b, struct fuse_file_info *fi);
void text_read(fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi);
void text_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);

/* The mount's own texts. */
enum { TEXT_README, TEXT_VERSION, TEXT_ENGINE, TEXT_ERRORS, TEXTS };
const char *text_name(unsigned which);
/* Answers a lookup of one of them. */
void text_lookup(fuse_req_t req, unsigned which);

#define TEXT_MAX (PROTO_MAX_DATA + 1) /* all that an agent may tell, and a newline */
