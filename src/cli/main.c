/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return outrider__cli_main(argc, argv);
}
