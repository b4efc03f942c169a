# SPDX-License-Identifier: MIT
# How an adapter makes itself known. An adapter is a directory of src/db or src/sink with a
# CMakeLists.txt that calls outrider_adapter() or outrider_builtin_sink(); nothing
# outside that directory names the adapter.

# outrider_adapter(NAME [BUILT yes|no] [ROOM room]): adds adapter.c of this directory, which
# defines `const struct adapter outrider__adapter_NAME` (core/adapter.h) and uses no client
# library, to the registry. BUILT: whether this build has the adapter's module.
# ROOM: the room of the directory above, where this directory is not a room of its own.
function(outrider_adapter name)
    cmake_parse_arguments(ADAPTER "" "BUILT;ROOM" "" ${ARGN})
    if(ADAPTER_ROOM)
        outrider_room(outrider_adapters ${ADAPTER_ROOM} "${CMAKE_CURRENT_SOURCE_DIR}/..")
    else()
        outrider_room(outrider_adapters ${name})
    endif()
    target_sources(outrider_adapters PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/adapter.c")
    set_property(GLOBAL APPEND PROPERTY OUTRIDER_ADAPTERS ${name})
    if(ADAPTER_BUILT)
        set_property(GLOBAL APPEND PROPERTY OUTRIDER_ADAPTERS_BUILT ${name})
    endif()
endfunction()

# outrider_builtin_sink(NAME): a sink without a client library is part of the program. The
# directory defines `const struct sink_ops outrider__sink_NAME`.
function(outrider_builtin_sink name)
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/adapter.c")
    target_sources(outrider_sink PRIVATE ${sources})
    outrider_adapter(${name} BUILT yes ROOM sink)
    set_property(GLOBAL APPEND PROPERTY OUTRIDER_BUILTIN_SINKS ${name})
endfunction()

# Adds every directory below this one that has a CMakeLists.txt, except those named.
function(outrider_add_adapters)
    file(GLOB lists CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" */CMakeLists.txt)
    foreach(list ${lists})
        get_filename_component(directory "${list}" DIRECTORY)
        if(NOT directory IN_LIST ARGN)
            add_subdirectory(${directory})
        endif()
    endforeach()
endfunction()

# After the last adapter: writes the registry.
function(outrider_write_registry)
    get_property(names GLOBAL PROPERTY OUTRIDER_ADAPTERS)
    get_property(built GLOBAL PROPERTY OUTRIDER_ADAPTERS_BUILT)
    get_property(sinks GLOBAL PROPERTY OUTRIDER_BUILTIN_SINKS)
    list(SORT names)
    list(SORT sinks)
    set(externs "")
    set(rows "")
    foreach(name ${names})
        set(is_built false)
        if(name IN_LIST built)
            set(is_built true)
        endif()
        string(APPEND externs "extern const struct adapter outrider__adapter_${name};\n")
        string(APPEND rows "    {&outrider__adapter_${name}, ${is_built}},\n")
    endforeach()
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/adapters/registry.c" CONTENT
"/* Made by cmake/OutriderAdapter.cmake. */
#include \"core/adapter.h\"

${externs}
const struct adapter_entry outrider__adapters[] = {
${rows}    {NULL, false},
};
")
    set(externs "")
    set(rows "")
    foreach(name ${sinks})
        string(APPEND externs "extern const struct sink_ops outrider__sink_${name};\n")
        string(APPEND rows "    &outrider__sink_${name},\n")
    endforeach()
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/adapters/builtin.c" CONTENT
"/* Made by cmake/OutriderAdapter.cmake. */
#include \"sink/builtin.h\"

${externs}
const struct sink_ops *const outrider__builtin_sinks[] = {
${rows}    NULL,
};
")
endfunction()
